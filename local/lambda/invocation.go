package lambda

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// invocation is one event of an environment.
type invocation struct {
	id      string
	trace   string
	payload []byte
	result  chan outcome // buffered, since the caller may stop waiting
}

type outcome struct {
	payload []byte
	err     error
}

func newInvocation(payload []byte) *invocation {
	return &invocation{id: newUUID(), trace: newTraceID(time.Now()), payload: payload,
		result: make(chan outcome, 1)}
}

func (i *invocation) setHeaders(h http.Header, arn string, deadline time.Time) {
	h.Set("Content-Type", "application/json")
	h.Set("Lambda-Runtime-Aws-Request-Id", i.id)
	h.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(deadline.UnixMilli(), 10))
	h.Set("Lambda-Runtime-Invoked-Function-Arn", arn)
	h.Set("Lambda-Runtime-Trace-Id", i.trace)
}

func newUUID() string {
	b := randomBytes(16)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func newTraceID(now time.Time) string {
	b := randomBytes(20)
	return fmt.Sprintf("Root=1-%08x-%s;Parent=%s;Sampled=0", now.Unix(), hex.EncodeToString(b[:12]),
		hex.EncodeToString(b[12:]))
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the program instead
	return b
}

// finish sets the outcome unless it is already set.
func (i *invocation) finish(out outcome) {
	select {
	case i.result <- out:
	default:
	}
}
