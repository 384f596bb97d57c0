package record

// A Receipt identifies a whole recording by its length in bytes and its SHA-256 in hex.
type Receipt struct {
	Length int64  `json:"length"`
	SHA256 string `json:"sha256"`
}
