class Lapse < Formula
  desc "Measure when, for how long and why a Kubernetes Service drops requests"
  homepage "{{.Homepage}}"
  version "{{slice .Version 1}}"
  license "Apache-2.0"
{{range .Downloads}}
  if OS.{{if eq .OS "darwin"}}mac{{else}}linux{{end}}? && Hardware::CPU.{{if eq .Arch "arm64"}}arm{{else}}intel{{end}}?
    url "{{.URL}}"
    sha256 "{{.SHA256}}"
  end
{{end}}
  def install
    libexec.install "lapse", "image", "kubectl_complete-lapse"
    bin.install_symlink libexec/"lapse"
    bin.install_symlink libexec/"lapse" => "kubectl-lapse"
    bin.install_symlink libexec/"kubectl_complete-lapse"
    man1.install "man/lapse.1"
    bash_completion.install "completions/lapse.bash" => "lapse"
    zsh_completion.install "completions/_lapse"
    fish_completion.install "completions/lapse.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/lapse --version")
  end
end
