package dashboard_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/valkey-io/valkey-go"

	"tidegate/functions/admin/server/sitetest"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
)

// overtaking is a client on which somebody else's change comes first, once.
type overtaking struct {
	valkey.Client
	first func()
}

func (o *overtaking) Do(ctx context.Context, cmd valkey.Completed) valkey.ValkeyResult {
	if first := o.first; first != nil && strings.HasPrefix(cmd.Commands()[0], "EVAL") {
		o.first = nil
		first()
	}
	return o.Client.Do(ctx, cmd)
}

// A reset or a deletion that a change of the same key overtakes shows that change, and
// how to go on.
func TestKeyActionOvertaken(t *testing.T) {
	for _, action := range []string{"reset", "delete"} {
		keys := sitetest.NewRegistry(t, "acme")
		plain := keys.Store
		client := &overtaking{Client: keys.Client}
		keys.Store = registry.NewStore(client, sitetest.Pepper)
		s := sitetest.New(t, sitetest.WithKeys(keys)).Login()
		client.first = func() {
			k, err := plain.Get(t.Context(), keys.IDs["acme"])
			keys.Must(err)
			_, err = plain.Update(t.Context(), k.ID, k.Version, "key.test", sitetest.ByTest,
				func(k *policy.Key) { k.Tags = []string{"x"} })
			keys.Must(err)
		}
		page := s.Post(
			"/keys/{acme}/"+action, fields("version", "1"),
		).Wants(t, http.StatusConflict, "saved meanwhile", `name="version" value="2"`,
			`action="/keys/{acme}/`+action+`"`)
		s.Post(
			"/keys/{acme}/"+action, sitetest.With(sitetest.HiddenIn(page.Body), "reason", "still"),
		).Wants(t, http.StatusSeeOther)
	}
}
