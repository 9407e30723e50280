package s3test

import (
	"bufio"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Rules is an S3 server in this process with rules of AWS that versitygw lacks. Its bucket
// has Object Lock with a default retention, so a put needs a checksum, which Rules
// verifies. It answers over TLS, where the SDK sends the checksum behind the content.
type Rules struct {
	*httptest.Server

	mu      sync.Mutex
	objects map[string][]byte
	answers []refusal // to the next requests
}

// refusal is an error that S3 answers instead of doing what was asked.
type refusal struct {
	status int
	code   string
}

// StartRules starts a server, which ends with the test, and sets credentials in the
// environment.
func StartRules(t testing.TB) *Rules {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "tester")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "tester-secret")
	t.Setenv("AWS_SESSION_TOKEN", "")
	r := &Rules{objects: map[string][]byte{}}
	r.Server = httptest.NewTLSServer(r)
	t.Cleanup(r.Close)
	return r
}

// Address returns the address of the bucket for a journal's store.
func (r *Rules) Address() string {
	return "s3://" + Bucket + "?region=us-east-1&endpoint=" + r.URL
}

// Conflict makes the next n requests fail with 409, as S3 answers one of two concurrent
// conditional puts.
func (r *Rules) Conflict(n int) { r.refuse(n, http.StatusConflict, "ConditionalRequestConflict") }

// SlowDown makes the next n requests fail with 503, as S3 answers too many requests.
func (r *Rules) SlowDown(n int) { r.refuse(n, http.StatusServiceUnavailable, "SlowDown") }

func (r *Rules) refuse(n, status int, code string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for range n {
		r.answers = append(r.answers, refusal{status, code})
	}
}

// ServeHTTP answers PutObject and GetObject.
func (r *Rules) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	content, sum, err := body(request) // before the lock, since clients may be slow
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.answers) > 0 {
		refused := r.answers[0]
		r.answers = r.answers[1:]
		fail(w, refused)
		return
	}
	switch request.Method {
	case http.MethodGet:
		content, found := r.objects[request.URL.Path]
		if !found {
			fail(w, refusal{http.StatusNotFound, "NoSuchKey"})
			return
		}
		w.Header().Set("ETag", tag(content))
		_, _ = w.Write(content) // the client reports a short body
	case http.MethodPut:
		if refused := r.put(request, content, sum, err); refused != (refusal{}) {
			fail(w, refused)
		}
	default:
		fail(w, refusal{http.StatusMethodNotAllowed, "MethodNotAllowed"})
	}
}

func fail(w http.ResponseWriter, refused refusal) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(refused.status)
	_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%[1]s</Message></Error>", refused.code)
}

func (r *Rules) put(request *http.Request, content []byte, sum string, err error) refusal {
	switch {
	case err != nil:
		return refusal{http.StatusBadRequest, "IncompleteBody"}
	case sum == "":
		// "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests
		// with Object Lock parameters"
		return refusal{http.StatusBadRequest, "InvalidRequest"}
	case sum != checksum(content):
		return refusal{http.StatusBadRequest, "BadDigest"}
	}
	stored, taken := r.objects[request.URL.Path]
	match := request.Header.Get("If-Match")
	switch {
	case match != "" && !taken:
		return refusal{http.StatusNotFound, "NoSuchKey"}
	case match != "" && match != tag(stored), taken && request.Header.Get("If-None-Match") == "*":
		return refusal{http.StatusPreconditionFailed, "PreconditionFailed"}
	}
	r.objects[request.URL.Path] = content
	return refusal{}
}

// tag returns an object's entity tag.
func tag(content []byte) string { return `"` + checksum(content) + `"` }

const checksumHeader = "x-amz-checksum-crc32"

func checksum(content []byte) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(content)))
}

// body returns the content of a put and its checksum: a header, or a trailer behind the
// chunks of the content encoding aws-chunked.
func body(request *http.Request) (content []byte, sum string, err error) {
	if request.Header.Get("X-Amz-Trailer") == "" {
		content, err = io.ReadAll(request.Body)
		return content, request.Header.Get(checksumHeader), err
	}
	lines := bufio.NewReader(request.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil, "", err
		}
		length, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		n, err := strconv.ParseInt(length, 16, 32)
		if err != nil {
			return nil, "", err
		}
		if n == 0 {
			break
		}
		chunk := make([]byte, n+2) // with the end of its line
		if _, err := io.ReadFull(lines, chunk); err != nil {
			return nil, "", err
		}
		content = append(content, chunk[:n]...)
	}
	line, err := lines.ReadString('\n')
	name, value, found := strings.Cut(strings.TrimSpace(line), ":")
	if err == nil && (!found || name != request.Header.Get("X-Amz-Trailer")) {
		err = errors.New("want the trailer that X-Amz-Trailer names")
	}
	return content, value, err
}
