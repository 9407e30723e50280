// Package browsertest starts Chromium for tests. Only tests import it.
package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"tidegate/internal/testing/tier"
	"tidegate/internal/testing/waiting"
)

// testTimeout bounds a whole browser test.
const testTimeout = 6 * time.Minute

// Need skips a test if a tool is missing, or fails it in CI, where no test may be
// skipped. missing is nil if the tool was found; install says how to install it.
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

// running is the browser that all tests of a package share.
var running struct {
	tab  context.Context // nil without a browser
	stop func()
}

// Run runs the tests of a package that uses Start, then ends the browser. TestMain calls
// it.
func Run(m *testing.M) int {
	running.stop = func() {}
	defer func() { running.stop() }()
	return m.Run()
}

// Start returns the context of a tab in the package's browser. The tab shares neither
// cookies nor a cache with those of other tests. A test that calls it belongs to tier 2.
func Start(t testing.TB) context.Context {
	t.Helper()
	tier.Two(t, "drives a browser")
	return StartInTierOne(t)
}

// StartInTierOne is Start for the journey of the dashboard that tier 1 takes.
func StartInTierOne(t testing.TB) context.Context {
	t.Helper()
	path, err := findChromium()
	Need(t, err, "install it: apt-get install chromium (Debian), brew install --cask google-chrome (macOS)")
	if running.stop == nil {
		t.Fatal("TestMain of the package must call browsertest.Run")
	}
	if running.tab == nil {
		if err := launch(path); err != nil {
			t.Fatalf("start browser: %v", err)
		}
	}
	ctx, cancel := context.WithTimeout(running.tab, testTimeout)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		running.stop()
		t.Fatalf("open a tab: %v", err)
	}
	return ctx
}

func launch(path string) error {
	folder, err := os.MkdirTemp("", "browser")
	if err != nil {
		return err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(folder),
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
	)
	ctx, end := chromedp.NewExecAllocator(context.Background(), options...)
	tab, closeTab := chromedp.NewContext(ctx)
	running.tab = tab
	running.stop = func() {
		closeTab()
		end()
		_ = os.RemoveAll(folder)
		running.tab = nil
		running.stop = func() {}
	}
	deadline := time.AfterFunc(waiting.Timeout, end)
	defer deadline.Stop()
	if err := chromedp.Do(tab); err != nil {
		running.stop()
		return fmt.Errorf("wait %s for Chromium: %w", waiting.Timeout, err)
	}
	return nil
}
