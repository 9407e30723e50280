package dashboard

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
)

// hammered makes a key banned by the policy, as checks write it.
func (r *testRegistry) hammered(name string, until time.Time) {
	r.t.Helper()
	us := uint64(until.UnixMicro())
	ban := []byte{3, byte(us >> 48), byte(us >> 40), byte(us >> 32), byte(us >> 24), byte(us >> 16), byte(us >> 8), byte(us)}
	for _, what := range []string{"sb", "sd"} {
		set := r.client.B().Set().Key(keyspace.Of(r.ids[name], what)).Value(valkey.BinaryString(ban)).Build()
		r.must(r.client.Do(context.Background(), set).Error())
	}
}

// A ban by the policy is on every page where one by hand is, and lifted as it.
func TestBanByPolicyOnPages(t *testing.T) {
	s := newSite(t).login()
	s.keys.save(func(set *policy.Set) {
		set.Bans = &policy.Bans{Denials: 2, Window: policy.Duration(time.Hour), Base: policy.Duration(time.Hour), Cap: policy.Duration(time.Hour)}
	})
	until := time.Now().Add(time.Hour)
	s.keys.hammered("acme", until)
	list := s.get("/keys?state=banned").wants(t, http.StatusOK, "{acme}", "banned", page.Instant(until).Text)
	if strings.Contains(list.body, "{bolt}") {
		t.Error("another key is listed")
	}
	s.get("/keys/{acme}").wants(
		t, http.StatusOK, "This caller is banned.", "/keys/{acme}/unban", page.Instant(until).Text,
	)
	s.get("/keys.csv?state=banned").wants(t, http.StatusOK, page.Stamp(until))
	s.post("/keys/{acme}/unban", fields("version", "1", "reason", "sorry")).wants(t, http.StatusSeeOther)
	for _, what := range []string{"sb", "sd"} {
		if s.keys.server.Exists(keyspace.Of(s.keys.ids["acme"], what)) {
			t.Errorf("%s is left", what)
		}
	}
	s.get("/audit?subject={acme}").wants(t, http.StatusOK, "key.unban", "banned until", page.Instant(until).Text)
	if body := s.get("/keys/{acme}").wants(t, http.StatusOK, "/keys/{acme}/ban").body; strings.Contains(body, "This caller is banned.") {
		t.Error("still banned")
	}
}
