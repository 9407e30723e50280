package api

import (
	"net/http"
	"testing"
	"time"

	"tidegate/internal/answer"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/usage"
)

// The counts of limits and the recorded calls are listed for one key and for all callers.
func TestUsage(t *testing.T) {
	s := newService(t)
	busy, quiet := s.create("busy"), s.create("quiet")
	s.reserve(busy.ID, 10).wants(http.StatusCreated)
	now := time.Now()
	recorder := usage.NewRecorder(usage.Options{}, func() time.Time { return now })
	for i := range 7 {
		o := usage.Outcome{Subject: busy.ID, Registered: true, Cost: 1, Time: now}
		if i > 4 {
			o.Verdict, o.DeniedUntil = usage.Denied, now.Add(10*time.Minute)
		}
		recorder.Record(o)
	}
	if report := recorder.Flush(t.Context(), storetest.Connect(t, s.url)); report.Err != nil {
		t.Fatal(report.Err)
	}
	s.get("/keys/"+busy.ID+"/usage").wants(http.StatusOK, `"used":10`, `"remaining":0`, `"nextFree":`,
		`"total":{"allowed":5,"denied":2,`, `"step":"1m"`)
	s.get("/keys/"+quiet.ID+"/usage?step=1h").wants(http.StatusOK, `"used":0`,
		`"total":{"allowed":0,"denied":0,`, `"step":"1h"`)
	s.get("/keys?state=blocked").wants(http.StatusOK, busy.ID)
	s.get("/callers").wants(http.StatusOK, `"id":"`+busy.ID+`"`, `"name":"busy"`)
	s.get("/callers?after=!").wants(http.StatusUnprocessableEntity, "query.after")
	got := s.get("/overview?top=1").wants(http.StatusOK, `"keys":2`, `"activeCallers":1`, `"policyVersion":1`)
	if got.stringAt("busiest", 0, "name") != "busy" || got.at("busiest", 0, "allowed") != 5.0 ||
		got.stringAt("mostDenied", 0, "id") != busy.ID {
		t.Errorf("got %s, want busy as the only caller in busiest and mostDenied", got.text)
	}
}

// An explanation has the rule that applies, the limits and the response of the call.
func TestExplain(t *testing.T) {
	s := newService(t)
	s.fill()
	id := s.create("acme").ID
	s.get("/explain?key="+id+"&path=/health").wants(http.StatusOK, `"rule":"free"`, `"cost":0`,
		`"allowed":true`, `"status":0`)
	s.get("/explain?key="+id+"&method=post&path=/chat/7&api=abc&stage=prod&address=192.0.2.7").
		wants(http.StatusOK, `"rule":"chat"`, `"cost":5`, `"scope":"route-ip"`, `"won":true`,
			`"pattern":"abc/prod POST /chat/{id}"`)
	s.get("/explain?key="+id+"&address=203.0.113.9").wants(http.StatusOK, `"allowed":false`, `"refused":"`,
		`"status":401`, answer.Unauthorized)
	s.get("/explain?key="+id+"&address=10.1.2.3&forwarded=192.0.2.7").wants(http.StatusOK, `"exempt":true`,
		`"address":"10.1.2.3"`, `"addressWhy":"the address that API Gateway saw: TRUSTED_PROXIES is not set"`)
	s.do(http.MethodPut, "/keys/"+id+"/override", map[string]any{"reason": "less",
		"limits": []any{map[string]any{"requests": 6, "window": "10m"}}}, header{"If-Match": "*"}).
		wants(http.StatusOK)
	registrytest.Save(t, s.keys, byTest, func(set *policy.Set) { set.Routes[0].Cost = 7 })
	s.get("/explain?key="+id+"&method=POST&path=/chat/7&api=abc&stage=prod").wants(http.StatusOK,
		`"allowed":false`, `"response":{"status":429,"type":"`+answer.QuotaExceeded, answer.Impossible().Detail)
	s.do(http.MethodDelete, "/keys/"+id+"/override?reason=x", nil, nil).wants(http.StatusOK)
	s.reserve(id, 10).wants(http.StatusCreated)
	s.get("/explain?key="+id).wants(http.StatusOK, `"allowed":false`, `"status":429`, "quota-exceeded",
		`"violatedPolicies":["10 per 10 minutes"]`,
		`"retryAfter":`)
}

// Thresholds that a reservation and its settlement cross are listed, newest first, in
// pages and by key.
func TestCrossings(t *testing.T) {
	s := newService(t)
	id := s.create("worker").ID
	registrytest.Save(t, s.keys, byTest, func(set *policy.Set) {
		set.Plans[0].Limits = []limiter.Limit{{Requests: 100, Window: time.Hour,
			Notify: limiter.Thresholds{50, 80}}}
		set.Routes = []policy.Route{{Name: "chat", Cost: 10, Settle: true}}
	})
	s.get("/crossings").wants(http.StatusOK, `"items":[]`)
	reserved := s.post("/reservations", map[string]any{"keyId": id, "route": "chat", "cost": 60}).wants(
		http.StatusCreated)
	s.post("/reservations/settle", map[string]any{"reservation": reserved.stringAt("reservation"),
		"cost": 85}).wants(http.StatusOK)
	first := s.get("/crossings?count=1").wants(http.StatusOK, `"threshold":80`, `"used":85`, `"max":100`,
		`"limit":"100 per 1 hour"`, `"scope":"key"`, `"subject":"`+id+`"`, `"name":"worker"`, `"plan":"`)
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
