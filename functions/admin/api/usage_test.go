package api

import (
	"net/http"
	"testing"
	"time"

	"tidegate/internal/answer"
	"tidegate/internal/cause"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
)

// The counts of limits and the recorded calls are listed for one key and for all callers.
func TestUsage(t *testing.T) {
	s := newService(t)
	busy, quiet := s.create("busy"), s.create("quiet")
	s.calls(busy.ID, 10)
	now := time.Now()
	recorder := records.NewRecorder(func() time.Time { return now })
	for i := range 8 {
		c := records.Call{Caller: busy.ID, Registered: true, Cost: 1, Time: now}
		switch {
		case i == 7:
			c.Cause = cause.Address
		case i > 4:
			c.Cause, c.Limit, c.RetryAfter = cause.Limit, "10 per 10 minutes", 10*time.Minute
		}
		recorder.Record(c)
	}
	if report := recorder.Flush(t.Context(), storetest.Connect(t, s.url)); report.Err != nil {
		t.Fatal(report.Err)
	}
	s.get("/keys/"+busy.ID+"/usage").wants(http.StatusOK, `"used":10`, `"remaining":0`, `"retryAfter":`,
		`"total":{"allowed":5,"denied":2,"refused":1,`, `"step":"1m"`,
		`{"cause":"limit","limit":"10 per 10 minutes","calls":2}`, `{"cause":"address","calls":1}`)
	s.get("/keys/"+busy.ID).wants(http.StatusOK, `"states":["blocked"]`,
		`"deniedBy":[{"limit":"10 per 10 minutes","until":"`)
	s.get("/keys/"+quiet.ID+"/usage?step=1h").wants(http.StatusOK, `"used":0`,
		`"total":{"allowed":0,"denied":0,"refused":0,`, `"step":"1h"`)
	s.get("/keys?state=blocked").wants(http.StatusOK, busy.ID)
	s.get("/keys?order=today").wants(http.StatusOK, `"id":"`+busy.ID+`"`, `"name":"busy"`)
	s.get("/callers").wants(http.StatusOK, `"items":[]`)
	s.get("/callers?after=!").wants(http.StatusUnprocessableEntity, "query.after")
	got := s.get("/overview?top=1").wants(http.StatusOK, `"keys":2`, `"activeCallers":1`, `"policyVersion":2`)
	if got.stringAt("busiest", 0, "name") != "busy" || got.at("busiest", 0, "allowed") != 5.0 ||
		got.stringAt("mostDenied", 0, "id") != busy.ID {
		t.Errorf("got %s, want busy as the only caller in busiest and mostDenied", got.text)
	}
}

// An explanation has the routes, where the cost comes from, every limit that applies, and the
// response of the call.
func TestExplain(t *testing.T) {
	s := newService(t)
	s.fill()
	id := s.create("acme").ID
	s.get("/explain?key="+id+"&path=/health").wants(http.StatusOK, `"route":"health"`, `"cost":0`,
		`"costFrom":"health"`, `"allowed":true`, `"status":0`)
	s.get("/explain?key="+id+"&method=post&path=/chat/7&api=abc&stage=prod&address=192.0.2.7").
		wants(http.StatusOK, `"route":"chat"`, `"cost":5`, `"who":"each address"`, `"who":"together"`,
			`"source":"policy"`, `"source":"plan","plan":"free"`, `"who":"each caller and {id}"`,
			`"pattern":"abc/prod POST /chat/{id}"`)
	s.get("/explain?key="+id+"&address=203.0.113.9").wants(http.StatusOK, `"allowed":false`, `"refused":"`,
		`"status":401`, answer.Unauthorized)
	s.get("/explain?key="+id+"&address=10.1.2.3&forwarded=192.0.2.7").wants(http.StatusOK, `"exempt":true`,
		`"address":"10.1.2.3"`, `"addressWhy":"the address that API Gateway saw: TRUSTED_PROXIES is not set"`)
	s.do(http.MethodPut, "/keys/"+id+"/override", map[string]any{"reason": "less",
		"limits": []any{"6 per 10 minutes"}}, header{"If-Match": "*"}).wants(http.StatusOK)
	s.get("/explain?key="+id).wants(http.StatusOK, `"override":"override"`, `"countsOnly":true`)
	s.do(http.MethodDelete, "/keys/"+id+"/override?reason=x", nil, nil).wants(http.StatusOK)
	registrytest.Save(t, s.keys, byTest, func(set *policy.Set) { set.Deny, set.Exempt = nil, nil })
	s.calls(id, 10)
	s.get("/explain?key="+id).wants(http.StatusOK, `"allowed":false`, `"status":429`, "quota-exceeded",
		`"violatedPolicies":["10 per 10 minutes"]`, `"retryAfter":`)
}

// Thresholds that a settlement crosses are listed, newest first, in pages and by key.
func TestCrossings(t *testing.T) {
	s := newService(t)
	s.settling(map[string]int64{limits.Cost: 10})
	registrytest.Save(t, s.keys, byTest, func(set *policy.Set) {
		set.Plans[0].Limits = limitsOf("100 per hour, notify at 50/80 %")
	})
	id := s.create("worker").ID
	s.get("/crossings").wants(http.StatusOK, `"items":[]`)
	for _, cost := range []int{60, 25} {
		s.post("/settlements", map[string]any{"settlement": s.call(id, "/chat").Settlement,
			"cost": cost}).wants(http.StatusOK)
	}
	first := s.get("/crossings?count=1").wants(http.StatusOK, `"threshold":80`, `"used":85`, `"max":100`,
		`"limit":"100 per hour"`, `"who":"each caller"`, `"subject":"`+id+`"`, `"name":"worker"`, `"plan":"`)
	s.get("/crossings?count=1&after="+first.stringAt("next")).wants(http.StatusOK, `"threshold":50`,
		`"used":60`)
	s.get("/crossings?key="+s.create("other").ID).wants(http.StatusOK, `"items":[]`)
	s.get("/crossings?after=x").wants(http.StatusUnprocessableEntity, "query.after")
	s.post("/crossings/test", nil).wants(http.StatusConflict, "CROSSINGS_TARGET")
	s.crossings.Target = "arn:aws:events:eu-west-1:111122223333:event-bus/default"
	s.post("/crossings/test", nil).wants(http.StatusNoContent)
	again := s.post("/crossings/test", nil).wants(http.StatusTooManyRequests, "less than a minute ago")
	if got := again.header.Get("Retry-After"); got != "60" {
		t.Errorf("a second test: got Retry-After %q, want 60", got)
	}
}
