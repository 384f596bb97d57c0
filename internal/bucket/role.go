package bucket

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"lapse/internal/hint"
)

// findKeys returns the keys in the environment, or what asks for those of the Pod's role: Amazon's STS, at
// $AWS_ENDPOINT_URL_STS or that of $AWS_REGION, or the agent of EKS Pod Identity. EKS says which in the Pod's
// environment.
func findKeys() (*credentials.Credentials, error) {
	set := func(name string) bool { return os.Getenv(name) != "" }
	switch {
	case set("AWS_ACCESS_KEY_ID") && set("AWS_SECRET_ACCESS_KEY"):
		return credentials.NewStaticV4(os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"),
			os.Getenv("AWS_SESSION_TOKEN")), nil
	case set("AWS_WEB_IDENTITY_TOKEN_FILE") && set("AWS_ROLE_ARN"):
		return credentials.NewIAM(os.Getenv("AWS_ENDPOINT_URL_STS")), nil
	case set("AWS_CONTAINER_CREDENTIALS_FULL_URI"):
		return credentials.NewIAM(""), nil
	}
	return nil, hint.Add("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the ServiceAccount an IAM role",
		ErrNoKey)
}

// ErrNoKey is the error of a bucket without a key.
var ErrNoKey = errors.New("there is no key for the bucket")

// askRole is the most that the answer of who gives a role's keys takes.
const askRole = 5 * time.Second

// signingKey returns the key to sign with. That of a role is asked for anew after at most four fifths of its time.
func (b *Bucket) signingKey() (credentials.Value, error) {
	asks := &http.Client{Transport: roleAnswers{b.client.Transport}, Timeout: askRole} // it takes no context
	key, err := b.keys.GetWithContext(&credentials.CredContext{Client: asks})
	if refused, ok := errors.AsType[*Refusal](err); ok {
		err = refused // without the URL
	}
	if file, ok := errors.AsType[*fs.PathError](err); ok { // of the token: a caller takes one for its own file's
		err = errors.New(file.Error())
	}
	if err == nil && key.SecretAccessKey == "" { // the request would not be signed
		err = errors.New("the answer has none")
	}
	if err != nil {
		return key, fmt.Errorf("the IAM role gives no key: %w", err)
	}
	return key, nil
}

// roleAnswers returns an answer without a key as a [Refusal], of which minio-go says the status only.
type roleAnswers struct{ http.RoundTripper }

func (a roleAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	reply, err := a.RoundTripper.RoundTrip(r)
	if err != nil || reply.StatusCode == http.StatusOK {
		return reply, err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(io.LimitReader(reply.Body, 4<<10))
	if err != nil {
		return nil, err
	}
	var sts struct {
		Error struct{ Code, Message string }
	}
	why := strings.TrimSpace(string(text)) // that of EKS is a line of text
	if xml.Unmarshal(text, &sts) == nil && sts.Error.Code != "" {
		why = sts.Error.Code + ": " + sts.Error.Message
	}
	return nil, &Refusal{reply.StatusCode, sts.Error.Code,
		fmt.Sprintf("%s answers %d %s", r.URL.Host, reply.StatusCode, cmp.Or(why, http.StatusText(reply.StatusCode)))}
}
