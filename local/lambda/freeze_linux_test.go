package lambda_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidegate/internal/testing/waiting"
	"tidegate/local/lambda"
)

// An environment is frozen when it requests the next invocation, runs during it, and is
// frozen again.
func TestFunctionFreezes(t *testing.T) {
	f := start(t, lambda.Config{Concurrency: 2, Warm: 2})
	listener := listen(t)
	for range 5 {
		pid := mustInvoke(t, f, event{}).PID
		waiting.Until(t, "the process is stopped", func() bool { return stopped(t, pid) })
	}
	done := make(chan answer, 1)
	go func() {
		a, err := invoke(f, event{Do: "meet", Address: listener.Addr().String()})
		if err != nil {
			t.Error(err)
		}
		done <- a
	}()
	conns := accept(t, listener, 1)
	closeAll(conns)
	pid := waiting.For(t, "the result", done).PID
	waiting.Until(t, "the process is stopped again", func() bool { return stopped(t, pid) })
	f.Close()
	if !gone(pid) {
		t.Error("Close left a frozen process")
	}
}

// A frozen function uses no CPU time: none of its threads is scheduled.
func TestFrozenFunctionUsesNoTime(t *testing.T) {
	f := start(t, lambda.Config{})
	pid := mustInvoke(t, f, event{Do: "tick"}).PID
	waiting.Until(t, "every thread is stopped", func() bool { return stopped(t, pid) })
	// The kernel reports a thread as stopped shortly before the thread leaves the CPU.
	waiting.Until(t, "no thread of the process is scheduled", func() bool { return notScheduled(t, pid) })
}

// notScheduled reports whether no thread of a process is scheduled while its context
// switches are read 1,000 times, in which time a running function would tick often.
func notScheduled(t *testing.T, pid int) bool {
	t.Helper()
	before := contextSwitches(t, pid)
	for range 1000 {
		if contextSwitches(t, pid) != before {
			return false
		}
	}
	return true
}

func tasks(t *testing.T, pid int, file string) []string {
	t.Helper()
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/%s", pid, file))
	if err != nil || len(paths) == 0 {
		t.Fatalf("process %d has no threads: %v", pid, err)
	}
	var texts []string
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

func stopped(t *testing.T, pid int) bool {
	t.Helper()
	for _, stat := range tasks(t, pid, "stat") {
		if stat[strings.LastIndexByte(stat, ')')+2] != 'T' {
			return false
		}
	}
	return true
}

func contextSwitches(t *testing.T, pid int) string {
	t.Helper()
	var all []string
	for _, status := range tasks(t, pid, "status") {
		_, switches, _ := strings.Cut(status, "voluntary_ctxt_switches")
		all = append(all, switches)
	}
	return strings.Join(all, " ")
}
