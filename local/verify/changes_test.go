package verify

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidegate/internal/apikey"
	"tidegate/internal/policy"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
)

// A whole log passes, without Valkey. A change that was altered is named, and so is a
// pepper that is not that of the log.
func TestLog(t *testing.T) {
	const pepper = "a pepper of at least thirty-two bytes, for tests"
	folder := t.TempDir()
	keys := registrytest.Open(t, storetest.Connect(t, valkeytest.Start(t)), folder, apikey.Pepper(pepper))
	for _, name := range []string{"free", "pro"} {
		registrytest.Save(t, keys, registrytest.Edit, func(set *policy.Set) {
			set.Plans = append(set.Plans, policy.Plan{Name: name, Limits: registrytest.Limits("2 per hour")})
		})
	}
	check := func(pepper, folder string, code int, want string) {
		t.Helper()
		var out, errOut bytes.Buffer
		env := func(name string) string { return map[string]string{"KEY_PEPPER": pepper}[name] }
		got := Run(t.Context(), []string{"-log", folder}, env, &out, &errOut)
		if text := out.String() + errOut.String(); got != code || !strings.Contains(text, want) {
			t.Errorf("got exit status %d, %q, want %d, %q", got, text, code, want)
		}
	}
	check(pepper, folder, allAsExpected, "3 changes: each is whole")
	check("another "+pepper, folder, somethingDiffers, "damaged")
	check("short", folder, 2, "KEY_PEPPER")
	check(pepper, "gs://bucket", 2, "-log")
	check(pepper, folder+"/none", somethingDiffers, "does not exist")
	second := filepath.Join(folder, "changes", "000000000", "002")
	content, err := os.ReadFile(second)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(second, bytes.Replace(content, []byte("user:tester"), []byte("user:nobody"), 1),
		0o600); err != nil {
		t.Fatal(err)
	}
	check(pepper, folder, somethingDiffers, "change 2 is damaged")
}
