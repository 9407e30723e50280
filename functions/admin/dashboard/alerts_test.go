package dashboard_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/server"
	"tidegate/internal/crossing"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/telemetry"
	"tidegate/internal/testing/sitetest"
	"tidegate/internal/testing/waiting"
)

// crossLimits reports calls of a key that crossed 50 % and 100 % of the key's own limit,
// and 80 % of a limit of all callers.
func crossLimits(s *sitetest.Site, name string) {
	id, now := s.Keys.IDs[name], time.Now()
	month := sitetest.Limit("100,000 per calendar month")
	shared := sitetest.Limit("90,000 per hour, on search, together")
	log := crossing.NewStore(s.Keys.Client, slog.New(slog.DiscardHandler))
	for i, x := range []enforce.Crossing{
		{Limit: month, Used: 50_000, Subject: id, Percent: 50, Reset: time.Hour},
		{Limit: month, Used: 100_000, Subject: id, Percent: 100, Reset: time.Hour},
		{Limit: shared, Used: 72_000, Subject: "search", Percent: 80, Reset: time.Hour},
	} {
		x.At = now.Add(time.Duration(i-5) * time.Second)
		log.Report(s.T.Context(), crossing.Call{KeyID: id, KeyName: "as it was", Plan: "free",
			Route: "search", Kind: policy.APIKey}, []enforce.Crossing{x})
	}
}

// The page lists crossed limits with the current names of keys. A filter narrows it to
// the limits of one key.
func TestAlerts(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Get("/alerts").Wants(t, http.StatusOK, "No alerts")
	crossLimits(s, "acme")
	s.Get("/alerts").Wants(t, http.StatusOK, ">acme<", "100,000 per calendar month", "50 %",
		"<strong>100 %</strong>", "100,000 of 100,000", "90,000 per hour on search together",
		"72,000 of 90,000")
	ofAcme := s.Get("/alerts?key={acme}")
	ofAcme.Wants(t, http.StatusOK, "<strong>100 %</strong>", `aria-label="Remove Key: acme"`)
	if strings.Contains(ofAcme.Body, "72,000 of 90,000") {
		t.Error("the alerts of one key include a limit of all callers")
	}
	s.Get("/alerts?key={bolt}").Wants(t, http.StatusOK, "No alerts")
	s.Get("/alerts?key=../x").Wants(t, http.StatusUnprocessableEntity, "Key: no key has this name or id.")
	s.Get("/alerts?after=x").Wants(t, http.StatusBadRequest)
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "/alerts?key={acme}")
}

// An editor sends a test by the log line of real events, marked as a test, at most once a
// minute. Without a target the page says that nothing is connected, and nothing is sent. A
// viewer has no button.
func TestAlertsAreTested(t *testing.T) {
	var lines waiting.Buffer
	s := sitetest.New(t, sitetest.WithServices(func(services *server.Services) {
		services.Log = slog.New(slog.NewJSONHandler(&lines, &slog.HandlerOptions{Level: slog.LevelError}))
	})).Login()
	send := func(message string) {
		t.Helper()
		s.Post("/alerts/test", nil).Wants(t, http.StatusSeeOther)
		s.Get("/alerts").Wants(t, http.StatusOK, message)
	}
	send("Nothing is connected.")
	if strings.Contains(s.Get("/alerts").Body, "Send a test") || lines.String() != "" {
		t.Errorf("without a target there is a button, or a line: %s", &lines)
	}
	s.Services.Crossings.Target = "arn:aws:sns:eu-west-1:111122223333:tidegate-prod-crossings"
	s.Get("/alerts").Wants(t, http.StatusOK, "Sent to SNS, topic tidegate-prod-crossings.", "Send a test")
	send("Test sent, marked “test”.")
	send("A test was sent less than a minute ago.")
	var line struct {
		Event   string
		KeyName string `json:"key_name"`
		Test    bool
	}
	if err := json.Unmarshal([]byte(lines.String()), &line); err != nil || !line.Test ||
		line.Event != telemetry.LimitCrossed || line.KeyName != "Test of alerts by ada" {
		t.Errorf("got lines %s, %v; want one of a test by ada", &lines, err)
	}
	if list := s.Get("/alerts").Body; !strings.Contains(list, "No alerts") {
		t.Error("the list has the test")
	}
	s.Services.Crossings.Target = "arn:aws:events:eu-west-1:111122223333:event-bus/default"
	viewer := s.LoginAs(sitetest.Viewer).Get("/alerts").Wants(t, http.StatusOK,
		"Sent to EventBridge, event bus default.")
	if strings.Contains(viewer.Body, "Send a test") {
		t.Error("a viewer has the button")
	}
}
