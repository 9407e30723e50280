package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/valkey-io/valkey-go"

	"tidegate/functions/admin/app"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/store/keyspace"
)

// racing is a client on which somebody else's change comes between the reading of a
// record and its change, some times.
type racing struct {
	valkey.Client
	record string
	first  func()
	times  int
}

func (r *racing) Do(ctx context.Context, cmd valkey.Completed) valkey.ValkeyResult {
	if r.times > 0 && strings.HasPrefix(cmd.Commands()[0], "EVAL") &&
		slices.Contains(cmd.Commands(), r.record) {
		r.times--
		r.first()
	}
	return r.Client.Do(ctx, cmd)
}

// A reset or a deletion that a change of the same key overtakes is made of the key as it
// is then, unless it was based on a version. One that is overtaken again and again is no
// fault of the store.
func TestOvertakenByAnEdit(t *testing.T) {
	s := newService(t)
	slow := &racing{Client: s.client}
	s.serve(registry.NewStore(slow, testPepper))
	for _, c := range []struct {
		method, path string
		headers      header
		times, want  int
	}{
		{http.MethodPost, "/reset", nil, 1, http.StatusOK},
		{http.MethodPost, "/reset", header{"If-Match": "*"}, app.Tries - 1, http.StatusOK},
		{http.MethodPost, "/reset", header{"If-Match": `"1"`}, 1, http.StatusPreconditionFailed},
		{http.MethodPost, "/reset", nil, app.Tries, http.StatusConflict},
		{http.MethodDelete, "", nil, 1, http.StatusNoContent},
		{http.MethodDelete, "", nil, app.Tries, http.StatusConflict},
	} {
		k := s.create("raced")
		slow.record, slow.times, slow.first = keyspace.Record(k.ID), c.times, func() {
			old, err := s.keys.Get(t.Context(), k.ID)
			if err == nil {
				_, err = s.keys.Update(t.Context(), k.ID, old.Version, "key.edit", byTest,
					func(k *policy.Key) { k.Tags = append(k.Tags, "x") })
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		r := s.do(c.method, "/keys/"+k.ID+c.path, nil, c.headers).wants(c.want)
		switch c.want {
		case http.StatusPreconditionFailed:
			r.wants(c.want, `"currentVersion":2`, `"givenVersion":1`)
		case http.StatusConflict:
			r.wants(c.want, "Others changed the same")
		}
		if slow.times != 0 {
			t.Errorf("%s %s: %d changes did not come between", c.method, c.path, slow.times)
		}
	}
	if text := s.log.String(); strings.Contains(text, "level=ERROR") {
		t.Errorf("logged %s", text)
	}
}
