package api

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/internal/cause"
	"tidegate/internal/records"
	"tidegate/internal/testing/storetest"
)

// Denials have pages and filters, and show networks and no address. A reference and the id
// of a request find theirs, with the ids of its first requests.
func TestDenials(t *testing.T) {
	s := newService(t)
	id, now := s.create("worker").ID, time.Now()
	recorder := records.NewRecorder(time.Now)
	var last records.Call
	for i := range 3 {
		last = records.Call{
			Caller: id, Registered: true, Time: now.Add(-time.Duration(i) * time.Minute),
			Cause: cause.Limit, Limit: "10 per 10 min", Plan: "free", Method: "GET", Path: "/orders/{id}",
			API: "abcdef1234", Stage: "prod", RetryAfter: 1500 * time.Millisecond,
			Request: fmt.Sprint("request", i), Network: netip.MustParsePrefix("192.0.2.0/24"),
			Routes: []string{"orders", "all"},
		}
		recorder.Record(last)
		recorder.Record(last)
	}
	recorder.Record(records.Call{Caller: id, Registered: true, Time: now, Shadow: "5 per 10 min"})
	recorder.Record(records.Call{Time: now, Cause: cause.Unknown})
	if report := recorder.Flush(t.Context(), storetest.Connect(t, s.url)); report.Err != nil {
		t.Fatal(report.Err)
	}
	first := s.get("/denials?count=2&key="+id).wants(http.StatusOK, `"limit":"10 per 10 min"`,
		`"path":"/orders/{id}"`, `"network":"192.0.2.0/24"`, `"retryAfter":1500`, `"calls":2`,
		`"route":"orders"`, `"key":"`+id+`"`)
	if strings.Contains(first.text, `"requests"`) || strings.Contains(first.text, "5 per 10 min") {
		t.Errorf("got %s, want no ids of requests, and no call that passed", first.text)
	}
	s.get("/denials?count=2&key="+id+"&after="+first.stringAt("next")).wants(http.StatusOK, `"items":[{`)
	reference := records.ReferenceOf(&last).String()
	for _, query := range []string{"request=" + reference, "request=request2"} {
		s.get("/denials?"+query).wants(http.StatusOK, `"requests":["request2","request2"]`, `"calls":2`,
			`"reference":"`+reference+`"`)
	}
	s.get("/denials?request=request9").wants(http.StatusOK, `"items":[]`)
	s.get("/denials?key=worker&range=1h").wants(http.StatusOK, `"name":"worker"`)
	s.get("/overview").wants(http.StatusOK, `{"cause":"unknown","calls":1}`)
	s.get("/denials?cause=ban").wants(http.StatusOK, `"items":[]`)
	s.get("/denials?route=orders&path=/orders/{id}&method=GET").wants(http.StatusOK, `"items":[{`)
	s.get("/denials?route=all").wants(http.StatusOK, `"items":[]`)
	s.get("/denials?cause=anger").wants(http.StatusUnprocessableEntity, "query.cause")
	s.get("/denials?after=x").wants(http.StatusUnprocessableEntity, "query.after")
	s.get("/denials?to=2020-01-01T00:00:00Z").wants(http.StatusUnprocessableEntity, "query.to")
}
