package server

import (
	"bytes"
	"net/http"
)

// answer is a response that is held back.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// send passes the answer on. Its headers are there already if they were shared.
func (a *answer) send(w http.ResponseWriter) {
	if a.status != 0 {
		w.WriteHeader(a.status)
	}
	_, _ = w.Write(a.body.Bytes()) // fails only when nobody listens any more
}
