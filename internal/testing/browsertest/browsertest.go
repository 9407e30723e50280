// Package browsertest starts Chromium for tests.
package browsertest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// testTimeout bounds a whole browser test; nothing waits for it to pass.
const testTimeout = 6 * time.Minute

// Need skips a test whose tool is missing, but fails it in CI, where nothing may be
// skipped.
func Need(t testing.TB, missing error, install string) {
	t.Helper()
	if missing == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%v; %s", missing, install)
	}
	t.Skipf("%v; %s", missing, install)
}

func findChromium() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	const mac = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
	if _, err := os.Stat(mac); err == nil {
		return mac, nil
	}
	return "", errors.New("chromium is not on PATH")
}

// Start starts a browser of its own for the test and returns the context of its first
// tab.
func Start(t testing.TB) context.Context {
	t.Helper()
	path, err := findChromium()
	Need(t, err, "install it: apt-get install chromium (Debian), brew install --cask google-chrome (macOS)")
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
	)
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start browser: %v", err)
	}
	return ctx
}
