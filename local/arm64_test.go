//go:build unix

package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"tidegate/internal/testing/tier"
	"tidegate/internal/testing/valkeytest"
)

// The functions that scripts/build makes for Lambda on arm64 work: the authorizer counts
// and denies, and the dashboard asks for a log-in.
func TestArm64(t *testing.T) {
	tier.Two(t, "compiles the functions for arm64")
	functions := arm64Functions(t)
	p, c, statuses, last := twelveCalls(t, []string{"-bin", functions, "-valkey", valkeytest.Start(t),
		"-data", t.TempDir()})
	if want := slices.Concat(slices.Repeat([]int{200}, 10), []int{429, 429}); !slices.Equal(statuses, want) {
		t.Fatalf("statuses %v, want %v", statuses, want)
	}
	checkDenied(t, last, "10 per 10 seconds", 10, 10)
	if a := c.get(p.url("rest")+"/orders", "tg_demo_unknown"); a.status != http.StatusUnauthorized {
		t.Errorf("an unknown key: got %d, want 401", a.status)
	}
	if a := c.get(p.url("admin")+"/login", ""); a.status != http.StatusOK {
		t.Errorf("the dashboard's log-in page: got %d %s, want 200", a.status, a.body)
	}
}

// arm64Functions returns a folder of functions for arm64. On other machines an emulator
// runs them.
func arm64Functions(t *testing.T) string {
	t.Helper()
	emulator := ""
	if runtime.GOARCH != "arm64" {
		emulator = qemu(t)
	}
	dir := t.TempDir()
	for _, name := range []string{"check", "admin"} {
		binary := filepath.Join(dir, name, "arm64")
		build := exec.CommandContext(t.Context(), "go", "build", "-tags", "lambda.norpc", "-buildvcs=false",
			"-ldflags=-s -w -buildid=", "-trimpath",
			"-o", binary, "../functions/"+name)
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=arm64", "GOARM64=v8.0",
			"GOFLAGS=", "GOEXPERIMENT=")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
		script := fmt.Sprintf("#!/bin/sh\nexec %s '%s'\n", emulator, binary)
		if err := os.WriteFile(filepath.Join(dir, name, "bootstrap"), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func qemu(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("qemu-aarch64")
	if err == nil {
		return path
	}
	if os.Getenv("CI") != "" && runtime.GOOS == "linux" {
		t.Fatalf("no emulator: %v; scripts/install-test-tools installs it", err)
	}
	t.Skip("no qemu-aarch64 on PATH: Debian's package qemu-user has it")
	return ""
}
