package api

import (
	"net/http"
	"strings"
	"testing"

	"tidegate/functions/admin/app"
)

// A caller that has the current policy gets 304 without a body, as JSON and YAML. A change
// takes a list of versions.
func TestConditionalRequests(t *testing.T) {
	s := newService(t)
	for _, path := range []string{"/policy", "/policy.yaml"} {
		read := s.get(path).wants(http.StatusOK)
		etag := read.header.Get("ETag")
		for _, tags := range []string{etag, "W/" + etag, `"1", ` + etag, "*"} {
			got := s.do(http.MethodGet, path, nil, header{"If-None-Match": tags}).
				wants(http.StatusNotModified)
			if got.text != "" || got.header.Get("ETag") != etag {
				t.Errorf("%s with %s: got %q, %v, want no body and ETag %s", path, tags, got.text,
					got.header, etag)
			}
		}
		if again := s.do(http.MethodGet, path, nil, header{"If-None-Match": `"1"`}).
			wants(http.StatusOK); again.text != read.text {
			t.Errorf("%s: got\n%s\nwant\n%s", path, again.text, read.text)
		}
	}
	k := s.create("a")
	etag := s.get("/keys/" + k.ID).header.Get("ETag")
	patch := func(headers header) reply {
		t.Helper()
		return s.do(http.MethodPatch, "/keys/"+k.ID, map[string]any{"name": "b"}, headers)
	}
	patch(header{"If-Match": "W/" + etag}).wants(http.StatusPreconditionFailed, "weak ETag", "without W/")
	patch(header{"If-Match": "*", "If-None-Match": etag}).
		wants(http.StatusPreconditionFailed, "If-None-Match")
	s.do(http.MethodPost, "/keys/"+k.ID+"/revoke", nil, header{"If-None-Match": "*"}).
		wants(http.StatusPreconditionFailed)
	patch(header{"If-Match": `"1", ` + etag}).wants(http.StatusOK, `"name":"b"`)
}

// A policy that is exported and imported as it is makes no change, whatever the version and
// with every way to send it.
func TestUnchangedImport(t *testing.T) {
	s := newService(t)
	s.fill()
	before, _ := s.newest(app.PolicyRecord)
	file, document := s.get("/policy.yaml").text, s.get("/policy").text
	star := header{"If-Match": "*"}
	for range 2 {
		s.putFile("?reason=same", file, nil).wants(http.StatusOK, `"applied":false`)
		s.putFile("?reason=same", file, star).wants(http.StatusOK, `"applied":false`)
		s.putFile("?reason=same", file, header{"If-Match": `"1"`}).wants(http.StatusOK, `"applied":false`)
		s.do(http.MethodPut, "/policy?reason=same", []byte(document), star).wants(http.StatusOK,
			`"applied":false`)
	}
	s.putFile("?reason=same", strings.ReplaceAll(file, "\n", "\r\n"), star).wants(http.StatusOK,
		`"applied":false`)
	if after, _ := s.newest(app.PolicyRecord); after.Number != before.Number {
		t.Errorf("got change %d, want still %d", after.Number, before.Number)
	}
	if text := s.get("/policy.yaml").text; text != file {
		t.Errorf("got\n%s\nwant\n%s", text, file)
	}
}
