package server

import (
	"bytes"
	"net/http"
)

// bufferedResponse is a response that is sent later.
type bufferedResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (b *bufferedResponse) Header() http.Header         { return b.header }
func (b *bufferedResponse) Write(p []byte) (int, error) { return b.body.Write(p) }

func (b *bufferedResponse) WriteHeader(status int) {
	if b.status == 0 {
		b.status = status
	}
}

// send sends the response. Its headers are already set if w shares them.
func (b *bufferedResponse) send(w http.ResponseWriter) {
	if b.status != 0 {
		w.WriteHeader(b.status)
	}
	_, _ = w.Write(b.body.Bytes()) // fails only after the client disconnected
}
