package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tidegate/internal/policy"
	"tidegate/internal/testing/built"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/valkeytest"
)

// chrootedCheck returns a program that runs the check function in an empty file system.
// The image of a deployed function has no time zones either.
func chrootedCheck(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	function := map[string]string{"bootstrap": "tidegate/functions/check"}
	if err := built.Link(t.Context(), root, function); err != nil {
		t.Fatal(err)
	}
	enter := "chroot"
	if os.Geteuid() != 0 {
		enter = "unshare --map-root-user chroot"
	}
	program := filepath.Join(dir, "bootstrap")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nPATH=$PATH:/usr/sbin:/sbin\nexec "+enter+" '"+root+
		"' /bootstrap\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, _ := exec.CommandContext(t.Context(), program).CombinedOutput(); !strings.Contains(string(out),
		"check cannot start") {
		t.Skipf("programs cannot change their root folder here: %s", out)
	}
	return program
}

// Calendar limits in a time zone work with the zone data in the function's binary. They
// work in an environment that already has another policy set, and in one that starts with
// them.
func TestZonedLimitsWithoutZoneData(t *testing.T) {
	binary, url := chrootedCheck(t), valkeytest.Start(t)
	f := startCheckFrom(t, binary, url, t.TempDir(), nil)
	call := func(f *checkFunction) {
		t.Helper()
		_, secret := f.newKey(t)
		event := canaryEvent("x-api-key", secret.Reveal(), canaryAddress)
		if answers, allowed := f.invokeAll(t, []string{event, event, event}); allowed != 2 ||
			strings.Contains(answers, "degraded") {
			t.Errorf("%d calls allowed, want 2: %s%s", allowed, answers, f.log.String())
		}
	}
	call(f)
	registrytest.Save(t, f.store, byTest, func(set *policy.Set) {
		const day = "1,000 per calendar day (Europe/Berlin), "
		set.Limits = registrytest.Limits(day+"each caller", day+"each address", day+"together")
	})
	call(f)
	f.Close()
	again := startCheckFrom(t, binary, url, f.data, nil)
	call(again)
	for _, log := range []string{f.log.String(), again.log.String()} {
		if strings.Contains(log, "cannot be used") || strings.Contains(log, "without Valkey") {
			t.Errorf("want no error about the policy set or Valkey: %s", log)
		}
	}
}
