// Package s3test is an S3 server for tests, in their own process, with the rules that AWS
// documents. Only tests import it.
package s3test

import (
	"bytes"
	"crypto/md5" //nolint:gosec // an ETag is one
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	signer "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

const (
	// Bucket is the name of the server's only bucket. It has Object Lock with a default
	// retention, so a put needs a checksum.
	Bucket = "changes"

	region, accessKey, secretKey = "us-east-1", "tester", "tester-secret"
	// maxKey is the longest name of an object, in bytes.
	maxKey = 1024
)

// Server is an S3 server.
//
// Puts are atomic and immediately visible, also in lists. If-None-Match: * refuses a taken
// name with 412. If-Match refuses another tag with 412, and a missing object with 404. A
// delete during a conditional put makes it fail with 409. Of concurrent conditional puts
// the first to end succeeds. ETags are the MD5 of objects without a KMS key. Lists are in
// binary order and have at most 1,000 names a page. Requests need a good signature.
//
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html,
// https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html
type Server struct {
	*httptest.Server

	mu      sync.Mutex
	objects map[string]object
	deleted map[string]int // the number of the last delete of a name
	deletes int
	answers []refusal // to the next requests
}

type object struct {
	content  []byte
	modified time.Time
}

func (o object) tag() string {
	return fmt.Sprintf(`"%x"`, md5.Sum(o.content)) //nolint:gosec // S3's rule
}

// refusal is an error that S3 answers instead of doing what was asked.
type refusal struct {
	status int
	code   string
}

// Start starts a server, which ends with the test, and sets credentials in the
// environment.
func Start(t testing.TB) *Server {
	t.Helper()
	return start(t, httptest.NewServer)
}

// StartTLS starts a server that answers over TLS, where the SDK sends the checksum behind
// the content.
func StartTLS(t testing.TB) *Server {
	t.Helper()
	return start(t, httptest.NewTLSServer)
}

func start(t testing.TB, listen func(http.Handler) *httptest.Server) *Server {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", accessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", secretKey)
	t.Setenv("AWS_SESSION_TOKEN", "")
	s := &Server{objects: map[string]object{}, deleted: map[string]int{}}
	s.Server = listen(s)
	t.Cleanup(s.Close)
	return s
}

// Address returns the address of the bucket for the store of a log.
func (s *Server) Address() string { return s.AddressAt(s.URL) }

// AddressAt returns the address of the bucket at an endpoint, such as a proxy to the server.
func (s *Server) AddressAt(endpoint string) string {
	return "s3://" + Bucket + "?region=" + region + "&endpoint=" + endpoint
}

// Conflict makes the next n requests fail with 409, as S3 answers one of two concurrent
// conditional puts.
func (s *Server) Conflict(n int) { s.refuse(n, conflict) }

// SlowDown makes the next n requests fail with 503, as S3 answers too many requests.
func (s *Server) SlowDown(n int) {
	s.refuse(n, refusal{http.StatusServiceUnavailable, "SlowDown"})
}

// Undo forgets the refusals that no request has met.
func (s *Server) Undo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = nil
}

func (s *Server) refuse(n int, with refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		s.answers = append(s.answers, with)
	}
}

var (
	conflict    = refusal{http.StatusConflict, "ConditionalRequestConflict"}
	noSuchKey   = refusal{http.StatusNotFound, "NoSuchKey"}
	stale       = refusal{http.StatusPreconditionFailed, "PreconditionFailed"}
	unsupported = refusal{http.StatusNotImplemented, "NotImplemented"}
)

// ServeHTTP answers PutObject, GetObject, HeadObject, DeleteObject and ListObjectsV2 with
// path-style addresses.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	began := s.deletes
	s.mu.Unlock()
	content, sum, err := body(r) // before the lock, since clients may be slow
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	var refused refusal
	switch {
	case len(s.answers) > 0:
		refused, s.answers = s.answers[0], s.answers[1:]
	case !signed(r, content):
		refused = refusal{http.StatusForbidden, "SignatureDoesNotMatch"}
	case bucket != Bucket:
		refused = refusal{http.StatusNotFound, "NoSuchBucket"}
	case len(key) > maxKey:
		refused = refusal{http.StatusBadRequest, "KeyTooLongError"}
	case key == "" && r.Method == http.MethodGet && r.URL.Query().Get("list-type") == "2":
		refused = s.list(w, r.URL.Query())
	case key == "":
		refused = unsupported
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		refused = s.get(w, r, key)
	case r.Method == http.MethodPut && err != nil:
		refused = refusal{http.StatusBadRequest, "IncompleteBody"}
	case r.Method == http.MethodPut:
		refused = s.put(w, r, key, content, sum, began)
	case r.Method == http.MethodDelete:
		refused = s.delete(w, r, key)
	default:
		refused = unsupported
	}
	if refused != (refusal{}) {
		fail(w, r, refused)
	}
}

func fail(w http.ResponseWriter, r *http.Request, refused refusal) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(refused.status)
	if r.Method != http.MethodHead && refused.status != http.StatusNotModified {
		_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%[1]s</Message></Error>", refused.code)
	}
}

// get answers with an object, or with a range of it.
func (s *Server) get(w http.ResponseWriter, r *http.Request, key string) refusal {
	stored, found := s.objects[key]
	switch match := r.Header.Get("If-Match"); {
	case !found:
		return noSuchKey
	case match != "" && match != "*" && match != stored.tag():
		return stale
	}
	w.Header().Set("ETag", stored.tag())
	w.Header().Set("Content-Type", "binary/octet-stream")
	if r.Header.Get("X-Amz-Checksum-Mode") == "ENABLED" && r.Header.Get("Range") == "" {
		w.Header().Set(checksumHeader, checksum(stored.content))
		w.Header().Set("X-Amz-Checksum-Type", "FULL_OBJECT")
	}
	http.ServeContent(w, r, "", stored.modified, bytes.NewReader(stored.content))
	return refusal{}
}

// put stores an object. began is the number of deletes when the request arrived.
func (s *Server) put(w http.ResponseWriter, r *http.Request, key string, content []byte, sum string,
	began int) refusal {
	digest := r.Header.Get("Content-Md5")
	md := md5.Sum(content) //nolint:gosec // S3's rule
	switch {
	case sum == "" && digest == "":
		// "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests
		// with Object Lock parameters"
		return refusal{http.StatusBadRequest, "InvalidRequest"}
	case sum != "" && sum != checksum(content),
		digest != "" && digest != base64.StdEncoding.EncodeToString(md[:]):
		return refusal{http.StatusBadRequest, "BadDigest"}
	}
	stored, taken := s.objects[key]
	match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	switch {
	case none != "" && none != "*", match != "" && none != "":
		return unsupported
	case (match != "" || none != "") && s.deleted[key] > began:
		return conflict
	case match != "" && !taken:
		return noSuchKey
	case match != "" && match != stored.tag(), none != "" && taken:
		return stale
	}
	made := object{content, time.Now()}
	s.objects[key] = made
	w.Header().Set("ETag", made.tag())
	w.Header().Set(checksumHeader, checksum(content))
	return refusal{}
}

// delete deletes an object. It succeeds if there is none, unless If-Match asks for one.
func (s *Server) delete(w http.ResponseWriter, r *http.Request, key string) refusal {
	stored, found := s.objects[key]
	switch match := r.Header.Get("If-Match"); {
	case match != "" && !found:
		return noSuchKey
	case match != "" && match != "*" && match != stored.tag():
		return stale
	}
	delete(s.objects, key)
	s.deletes++
	s.deleted[key] = s.deletes
	w.WriteHeader(http.StatusNoContent)
	return refusal{}
}

// signed reports whether a request has the signature that the credentials give it, and
// the content whose hash it signs.
func signed(r *http.Request, content []byte) bool {
	authorization := r.Header.Get("Authorization")
	_, list, _ := strings.Cut(authorization, "SignedHeaders=")
	list, _, _ = strings.Cut(list, ",")
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	hash := r.Header.Get("X-Amz-Content-Sha256")
	if err != nil || list == "" {
		return false
	}
	again := r.Clone(r.Context())
	again.URL.Host, again.URL.Scheme, again.Header = r.Host, "http", http.Header{}
	again.ContentLength = 0
	for name := range strings.SplitSeq(list, ";") {
		switch name {
		case "content-length":
			again.ContentLength = r.ContentLength
		case "host":
		default:
			again.Header[http.CanonicalHeaderKey(name)] = r.Header.Values(name)
		}
	}
	err = signer.NewSigner(func(o *signer.SignerOptions) { o.DisableURIPathEscaping = true }).SignHTTP(
		r.Context(), aws.Credentials{AccessKeyID: accessKey, SecretAccessKey: secretKey}, again, hash, "s3",
		region, at)
	sum := sha256.Sum256(content)
	return err == nil && again.Header.Get("Authorization") == authorization &&
		(hash == hex.EncodeToString(sum[:]) || hash == "UNSIGNED-PAYLOAD" ||
			strings.HasPrefix(hash, "STREAMING-"))
}
