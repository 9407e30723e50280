package dashboard

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/valkey-io/valkey-go"

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
		keys := newRegistry(t, "acme")
		plain := keys.Store
		client := &overtaking{Client: keys.client}
		keys.Store = registry.NewStore(client, testPepper)
		s := newSite(t, withKeys(keys)).login()
		client.first = func() {
			k, err := plain.Get(t.Context(), keys.ids["acme"])
			keys.must(err)
			_, err = plain.Update(t.Context(), k.ID, k.Version, "key.test", byTest, func(k *policy.Key) { k.Tags = []string{"x"} })
			keys.must(err)
		}
		page := s.post("/keys/{acme}/"+action, fields("version", "1")).wants(t, http.StatusConflict, "saved meanwhile", `name="version" value="2"`,
			`action="/keys/{acme}/`+action+`"`)
		s.post("/keys/{acme}/"+action, with(hiddenIn(page.body), "reason", "still")).wants(t, http.StatusSeeOther)
	}
}
