package bucket

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// A Refusal is an answer that is an error.
type Refusal struct {
	Status int
	Code   string // as https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html lists them; may be empty
	text   string
}

func (r *Refusal) Error() string { return r.text }

// Lasting reports whether the answer stays the same until somebody changes the bucket, the key or the settings.
func (r *Refusal) Lasting() bool {
	switch r.Status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusConflict: // two guards begin with README.txt
		return false
	}
	return (r.Status/100 == 3 || r.Status/100 == 4) && !slices.Contains(passing, r.Code)
}

// passing are the codes of answers with status 4xx that are worth another attempt. The last two are those of STS about
// a token that it could not check yet, which Amazon's SDKs ask about again, too.
var passing = []string{clockCode, "RequestTimeout", "Throttling", "IDPCommunicationError", "InvalidIdentityToken"}

// TooLarge reports whether the answer is about one object, and not about the others.
func (r *Refusal) TooLarge() bool {
	return r.Status == http.StatusRequestEntityTooLarge || r.Code == "EntityTooLarge"
}

const clockCode = "RequestTimeTooSkewed"

// refusal reads an error.
func (b *Bucket) refusal(reply *http.Response, body io.Reader) error {
	var said struct{ Code, Message, Region string }
	text, err := io.ReadAll(io.LimitReader(body, 64<<10))
	if err != nil {
		return err
	}
	_ = xml.Unmarshal(text, &said) // or it is no S3 server
	r := &Refusal{Status: reply.StatusCode, Code: said.Code}
	region := cmp.Or(said.Region, reply.Header.Get("X-Amz-Bucket-Region"))
	switch {
	case said.Code == "NoSuchBucket":
		r.text = "there is no such bucket at " + b.root.Host
	case said.Code == "InvalidAccessKeyId":
		r.text = "the access key ID is unknown at " + b.root.Host
	case said.Code == "SignatureDoesNotMatch":
		r.text = "the secret access key is wrong, says " + b.root.Host
	case said.Code == "AccessDenied":
		r.text = "the key has no right to do that"
	case said.Code == clockCode:
		r.text = "the clocks differ" + apart(reply.Header.Get("Date"))
	case region != "" && region != b.region:
		r.text = fmt.Sprintf("the bucket is in the region %s, and not in %s: set AWS_REGION", region, b.region)
	case said.Code != "":
		r.text = fmt.Sprintf("%s answers %d %s: %s", b.root.Host, r.Status, said.Code, said.Message)
	default:
		r.text = fmt.Sprintf("%s answers %s, not as an S3 server", b.root.Host, reply.Status)
	}
	return r
}

// apart returns by how much the clock here differs from that of a Date header.
func apart(date string) string {
	there, err := http.ParseTime(date)
	if err != nil {
		return ""
	}
	if by := time.Since(there).Round(time.Second); by < 0 {
		return fmt.Sprintf(": that of this machine is %v behind", -by)
	} else {
		return fmt.Sprintf(": that of this machine is %v ahead", by)
	}
}
