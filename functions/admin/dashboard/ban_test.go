package dashboard_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/server/sitetest"
	"tidegate/internal/cause"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/usage"
	"tidegate/internal/usage/denylog"
)

// banByPolicy makes a key banned by the policy, as checks write and record it.
func banByPolicy(r *sitetest.Registry, name string, until time.Time) {
	r.T.Helper()
	us := uint64(until.UnixMicro())
	ban := []byte{3, byte(us >> 48), byte(us >> 40), byte(us >> 32), byte(us >> 24), byte(us >> 16),
		byte(us >> 8), byte(us)}
	for _, what := range []string{"sb", "sd"} {
		set := r.Client.B().Set().Key(keyspace.Of(r.IDs[name], what)).Value(valkey.BinaryString(ban)).Build()
		r.Must(r.Client.Do(context.Background(), set).Error())
	}
	r.Record(usage.Outcome{Subject: r.IDs[name], Registered: true, Verdict: usage.Denied, Time: time.Now(),
		Denial: &denylog.Denial{Cause: cause.Ban}, DeniedUntil: until})
}

// A ban by the policy is on every page where one by hand is, and lifted as it.
func TestBanByPolicyOnPages(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Save(func(set *policy.Set) {
		set.Bans = &policy.Bans{Denials: 2, Window: policy.Duration(time.Hour),
			Base: policy.Duration(time.Hour), Cap: policy.Duration(time.Hour)}
	})
	until := time.Now().Add(time.Hour)
	banByPolicy(s.Keys, "acme", until)
	list := s.Get("/keys?state=banned").Wants(t, http.StatusOK, "{acme}", "banned", page.Instant(until).Text)
	if strings.Contains(list.Body, "{bolt}") {
		t.Error("another key is listed")
	}
	s.Get("/keys/{acme}").Wants(
		t, http.StatusOK, "This caller is banned.", "/keys/{acme}/unban", page.Instant(until).Text,
	)
	s.Get("/keys.csv?state=banned").Wants(t, http.StatusOK, page.Stamp(until))
	s.Post("/keys/{acme}/unban", fields("version", "1", "reason", "sorry")).Wants(t, http.StatusSeeOther)
	for _, what := range []string{"sb", "sd"} {
		if s.Keys.Server.Exists(keyspace.Of(s.Keys.IDs["acme"], what)) {
			t.Errorf("%s is left", what)
		}
	}
	s.Get("/audit?subject={acme}").Wants(t, http.StatusOK, "key.unban", "banned until",
		page.Instant(until).Text)
	if body := s.Get("/keys/{acme}").Wants(t, http.StatusOK, "/keys/{acme}/ban").Body; strings.Contains(
		body, "This caller is banned.",
	) {
		t.Error("still banned")
	}
}
