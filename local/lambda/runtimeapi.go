package lambda

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// MaxPayload is the maximum size of an event or a response in bytes: Lambda's 6 MB and
// its allowance for the envelope.
const MaxPayload = 6<<20 + 100

// state is the state of a runtime's cycle, as its calls show it.
type state int

const (
	initialising state = iota // has not asked for an invocation yet
	ready                     // waits in next
	running                   // has an unanswered invocation
	responded                 // answered, and may still run until it asks for the next
)

// runtimeAPI is the Lambda Runtime API of one environment. It accepts the calls of one
// runtime in the order of the state machine.
type runtimeAPI struct {
	arn        string
	deliveries chan delivery  // to the waiting next; buffered
	nextCalls  chan time.Time // gets the time of each call of next
	initFailed chan error     // gets the error of init/error; buffered
	answered   func()         // runs before the caller gets the answer
	extended   atomic.Bool    // an internal extension registered, so the process gets SIGTERM

	lock    sync.Mutex
	state   state
	current *invocation
}

type delivery struct {
	invocation *invocation
	deadline   time.Time
}

func newRuntimeAPI(arn string, answered func()) *runtimeAPI {
	return &runtimeAPI{
		arn:        arn,
		deliveries: make(chan delivery, 1),
		nextCalls:  make(chan time.Time, 1),
		initFailed: make(chan error, 1),
		answered:   answered,
	}
}

func (a *runtimeAPI) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", a.next)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/response", a.response)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/error", a.failure)
	mux.HandleFunc("POST /2018-06-01/runtime/init/error", a.initError)
	mux.HandleFunc("POST /2020-01-01/extension/register", a.register)
	mux.HandleFunc("GET /2020-01-01/extension/event/next", a.nextEvent)
	return mux
}

// deliver gives an invocation to the runtime, which must be ready.
func (a *runtimeAPI) deliver(d delivery) {
	a.lock.Lock()
	a.state, a.current = running, d.invocation
	a.lock.Unlock()
	a.deliveries <- d
}

func (a *runtimeAPI) next(w http.ResponseWriter, r *http.Request) {
	arrived := time.Now()
	if !a.move(ready, initialising, responded) {
		refuse(w, http.StatusForbidden, "InvalidStateTransition", "next is not possible now")
		return
	}
	a.nextCalls <- arrived
	select {
	case d := <-a.deliveries:
		d.invocation.setHeaders(w.Header(), a.arn, d.deadline)
		a.lock.Lock()
		d.invocation.delivered = time.Now()
		a.lock.Unlock()
		_, _ = w.Write(d.invocation.payload)
	case <-r.Context().Done():
	}
}

func (a *runtimeAPI) response(w http.ResponseWriter, r *http.Request) {
	arrived := time.Now()
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxPayload+1))
	if err != nil {
		refuse(w, http.StatusBadRequest, "InvalidRequest", "the response body is incomplete")
		return
	}
	out := responseOutcome(body)
	if !a.answer(r.PathValue("id"), arrived, out) {
		refuse(w, http.StatusBadRequest, "InvalidRequestID", "no such invocation is running")
		return
	}
	if len(body) > MaxPayload {
		refuse(w, http.StatusRequestEntityTooLarge, "RequestEntityTooLarge", "the response is over 6 MB")
		return
	}
	accept(w)
}

// responseOutcome checks a response.
func responseOutcome(body []byte) outcome {
	switch {
	case len(body) > MaxPayload:
		return outcome{err: &ResponseError{Reason: "it is over 6 MB"}}
	case !json.Valid(body):
		return outcome{err: &ResponseError{Reason: "it is not JSON"}}
	}
	return outcome{payload: body}
}

func (a *runtimeAPI) failure(w http.ResponseWriter, r *http.Request) {
	arrived := time.Now()
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxPayload))
	out := outcome{err: parseFunctionError(body)}
	if err != nil || !a.answer(r.PathValue("id"), arrived, out) {
		refuse(w, http.StatusBadRequest, "InvalidRequestID", "no such invocation is running")
		return
	}
	accept(w)
}

func (a *runtimeAPI) initError(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxPayload))
	if err != nil || !a.move(responded, initialising) {
		refuse(w, http.StatusForbidden, "InvalidStateTransition", "initialisation is over")
		return
	}
	a.initFailed <- parseFunctionError(body)
	accept(w)
}

// register handles registrations of extensions within the function's process that want no
// events. A runtime registers one in order to get SIGTERM.
func (a *runtimeAPI) register(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Events []string `json:"events"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, MaxPayload)).Decode(&body); err != nil ||
		len(body.Events) > 0 {
		refuse(w, http.StatusBadRequest, "Extension.InvalidEventType",
			"only extensions without events are supported")
		return
	}
	a.extended.Store(true)
	w.Header().Set("Lambda-Extension-Identifier", "internal")
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte("{}"))
}

// nextEvent never answers, since there are no events.
func (a *runtimeAPI) nextEvent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// answer completes the running invocation if it has this id.
func (a *runtimeAPI) answer(id string, arrived time.Time, out outcome) bool {
	a.lock.Lock()
	inv := a.current
	if a.state != running || inv.id != id {
		a.lock.Unlock()
		return false
	}
	a.state, a.current = responded, nil
	inv.answered = arrived
	a.lock.Unlock()
	a.answered()
	inv.finish(out)
	return true
}

// move changes the state if it is one of from, and reports whether it was.
func (a *runtimeAPI) move(to state, from ...state) bool {
	a.lock.Lock()
	defer a.lock.Unlock()
	if !slices.Contains(from, a.state) {
		return false
	}
	a.state = to
	return true
}

func accept(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_, _ = w.Write([]byte(`{"status":"OK"}`))
}

func refuse(w http.ResponseWriter, status int, kind, message string) {
	var body bytes.Buffer
	_ = json.NewEncoder(&body).Encode(map[string]string{"errorType": kind, "errorMessage": message})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes())
}

// invocation is one event of an environment.
type invocation struct {
	id      string
	trace   string
	payload []byte
	result  chan outcome // buffered, since the caller may stop waiting
	ended   func()       // runs once, before the caller gets the outcome
	once    sync.Once

	delivered, answered time.Time // under the lock of the runtimeAPI
}

type outcome struct {
	payload []byte
	err     error
}

func newInvocation(payload []byte, ended func()) *invocation {
	return &invocation{id: NewRequestID(), trace: newTraceID(time.Now()), payload: payload,
		result: make(chan outcome, 1), ended: ended}
}

func (i *invocation) setHeaders(h http.Header, arn string, deadline time.Time) {
	h.Set("Content-Type", "application/json")
	h.Set("Lambda-Runtime-Aws-Request-Id", i.id)
	h.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(deadline.UnixMilli(), 10))
	h.Set("Lambda-Runtime-Invoked-Function-Arn", arn)
	h.Set("Lambda-Runtime-Trace-Id", i.trace)
}

// NewRequestID returns a random UUID (version 4), the form of AWS's request ids.
func NewRequestID() string {
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
	i.once.Do(func() {
		i.ended()
		i.result <- out
	})
}
