package api

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/internal/cause"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/usage"
	"tidegate/internal/usage/denylog"
)

// The denial log has pages and filters, counts refused credentials, and shows networks
// and no address.
func TestDenials(t *testing.T) {
	s := newService(t)
	id, now := s.create("worker").ID, time.Now()
	recorder := usage.NewRecorder(usage.Options{}, time.Now)
	for i := range 3 {
		recorder.Record(usage.Outcome{
			Subject: id, Registered: true, Verdict: usage.Denied, Cost: 1,
			Time: now.Add(-time.Duration(i) * time.Minute), Denial: &denylog.Denial{
				Cause: cause.Limit, Limit: "10 per 10 min", Plan: "free", Method: "GET", Path: "/orders/{id}",
				API: "abcdef1234", Stage: "prod", RetryAfter: 1500 * time.Millisecond, Request: "request",
				Network: denylog.NetworkOf(netip.MustParseAddr("192.0.2.77")),
			},
		})
	}
	recorder.Record(usage.Outcome{Subject: id, Registered: true, Verdict: usage.ShadowDenied, Time: now,
		Trials: []denylog.Denial{{Cause: cause.Shadow, Limit: "5 per 10 min"}}})
	recorder.Record(usage.Outcome{Time: now, Denial: &denylog.Denial{Cause: cause.Unknown}})
	if report := recorder.Flush(t.Context(), storetest.Connect(t, s.url)); report.Err != nil {
		t.Fatal(report.Err)
	}
	first := s.get("/denials?count=2&key="+id).wants(http.StatusOK, `"limit":"10 per 10 min"`,
		`"path":"/orders/{id}"`, `"network":"192.0.2.0/24"`, `"retryAfter":1500`, `"unlisted":0`)
	if strings.Contains(first.text, "192.0.2.77") {
		t.Error("the response has the address")
	}
	s.get("/denials?count=2&key="+id+"&after="+first.stringAt("next")).wants(http.StatusOK, `"items":[{`)
	s.get("/denials").wants(http.StatusOK, `"unknown":1`)
	s.get("/denials?cause=ban").wants(http.StatusOK, `"items":[]`)
	for by, want := range map[string]string{"would-block": "[{", "shadow": "[{"} {
		s.get("/denials?cause="+by).wants(http.StatusOK, `"items":`+want)
	}
	for _, query := range []string{"", "?cause=limit"} {
		if strings.Contains(s.get("/denials"+query).text, "5 per 10 min") {
			t.Errorf("%q: the denials include a call that passed", query)
		}
	}
	s.get("/denials?cause=anger").wants(http.StatusUnprocessableEntity, "query.cause")
	s.get("/denials?after=x").wants(http.StatusUnprocessableEntity, "query.after")
	bad := s.client.B().Hset().Key(denylog.Name(keyspace.BucketOf(id), now.Unix()/3600, false)).FieldValue().
		FieldValue("junk", "junk").Build()
	if err := s.client.Do(t.Context(), bad).Error(); err != nil {
		t.Fatal(err)
	}
	s.get("/denials?key="+id).wants(http.StatusOK, `"limit":"10 per 10 min"`, `"unreadable":1`)
	s.get("/denials?to=2020-01-01T00:00:00Z").wants(http.StatusUnprocessableEntity, "query.to")
}
