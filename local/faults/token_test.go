//go:build unix

package faults

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/store/acl"
	"tidegate/internal/testing/valkeytest"
)

var signed = regexp.MustCompile(`X-Amz-Date=(\d{8}T\d{6}Z)`)

// startIAM starts a TLS front of the server, which admits the user check with an IAM token
// that was signed since oldest, in Unix seconds. It returns the front and the function's
// settings.
func startIAM(t *testing.T, w *world, oldest *atomic.Int64) (*valkeytest.Proxy, map[string]string) {
	t.Helper()
	w.servers[0].ask(t, append([]string{"ACL", "SETUSER", "check", "reset", "nopass"},
		acl.Rules(acl.Check())...)...)
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	roots := filepath.Join(t.TempDir(), "roots.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certified.Certificate().Raw})
	if err := os.WriteFile(roots, block, 0o600); err != nil {
		t.Fatal(err)
	}
	proxy := valkeytest.StartProxy(t, w.url, &tls.Config{Certificates: certified.TLS.Certificates})
	proxy.Admit(func(login []byte) bool {
		match := signed.FindSubmatch(login)
		if match == nil {
			return false
		}
		at, err := time.Parse("20060102T150405Z", string(match[1]))
		return err == nil && at.Unix() >= oldest.Load()
	})
	return proxy, map[string]string{"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret",
		"SSL_CERT_FILE": roots}
}

// The first call after a freeze succeeds and counts once, although every connection ended
// meanwhile and Valkey accepts no token from before: tokens are valid for 15 minutes.
func TestFreezeOutlivesTokens(t *testing.T) {
	skipUnlessFaults(t)
	w, c := oneServer(t)
	var oldest atomic.Int64
	proxy, env := startIAM(t, w, &oldest)
	url := "valkeys://check@" + proxy.Address() + "?iam=tidegate&region=eu-west-1"
	f := startFleet(t, url, fleetOptions{environments: 1, timeout: calm, freeze: true, env: env})
	const thaws = 10
	failed, slowest := 0, time.Duration(0)
	for i := range thaws {
		began := time.Now()
		if o := f.call(t.Context(), c.secret.Reveal()); !o.counted() || o.remaining != allowance-int64(i)-1 {
			failed++
		}
		slowest = max(slowest, time.Since(began))
		proxy.Cut()
		during(t, 1100*time.Millisecond) // tokens are signed for whole seconds
		oldest.Store(time.Now().Unix())
	}
	if failed > 0 {
		t.Errorf("got %d of %d first calls that failed or did not count once, want none", failed, thaws)
	}
	report(t, "freeze beyond a token's 15 minutes, all connections dropped", "0 first calls fail",
		fmt.Sprintf("%d of %d fail, each logs in by IAM with a new token and counts once; the slowest %s",
			failed, thaws, ms(slowest)))
}
