package process_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"tidegate/internal/testing/waiting"
	"tidegate/local/process"
)

// TestMain runs the tests, or with BE_PARENT set the program whose child must end with
// it.
func TestMain(m *testing.M) {
	if os.Getenv("BE_PARENT") == "" {
		os.Exit(m.Run())
	}
	p, err := process.Start(exec.Command("sleep", "1000"))
	if err != nil {
		panic(err)
	}
	if os.Getenv("BE_PARENT") == "freeze" {
		p.Freeze()
	}
	fmt.Println(p.PID())
	<-p.Done()
}

// A child, frozen or not, ends with a program that is killed.
func TestChildDiesWithTheProgram(t *testing.T) {
	for _, how := range []string{"run", "freeze"} {
		t.Run(how, func(t *testing.T) {
			parent := exec.Command(os.Args[0])
			parent.Env = append(os.Environ(), "BE_PARENT="+how)
			out, err := parent.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}
			var child int
			if _, err := fmt.Fscan(out, &child); err != nil {
				t.Fatal(err)
			}
			if state(child) == 0 {
				t.Fatal("the child did not start")
			}
			_ = parent.Process.Kill()
			_ = parent.Wait()
			waiting.Until(t, "the child is gone", func() bool { return ended(child) })
		})
	}
}

func TestFreezeThawKill(t *testing.T) {
	p, err := process.Start(exec.Command("sleep", "1000"))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		p.Freeze()
		waiting.Until(t, "the child is stopped", func() bool { return state(p.PID()) == 'T' })
		p.Thaw()
		waiting.Until(t, "the child continues", func() bool { return state(p.PID()) == 'S' })
	}
	p.Freeze()
	p.Kill()
	if !ended(p.PID()) || p.Err() == nil {
		t.Errorf("after Kill: state %c, %v", state(p.PID()), p.Err())
	}
	p.Kill()
	p.Thaw()
}

// Kill also ends the child's children.
func TestKillReachesTheGroup(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 1000 & echo $!; wait")
	out := &firstLine{got: make(chan string, 1)}
	cmd.Stdout = out
	p, err := process.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	var grandchild int
	if _, err := fmt.Sscan(waiting.For(t, "the grandchild's id", out.got), &grandchild); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	waiting.Until(t, "the grandchild is gone", func() bool { return ended(grandchild) })
}

func TestStartFails(t *testing.T) {
	if _, err := process.Start(exec.Command("/does/not/exist")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want os.ErrNotExist", err)
	}
}

func TestErr(t *testing.T) {
	p, err := process.Start(exec.Command("sh", "-c", "exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	waiting.For(t, "the end of the child", p.Done())
	var exit *exec.ExitError
	if !errors.As(p.Err(), &exit) || exit.ExitCode() != 3 {
		t.Errorf("got %v, want exit status 3", p.Err())
	}
}

// firstLine sends the first line that is written to it.
type firstLine struct {
	text bytes.Buffer
	got  chan string
}

func (l *firstLine) Write(p []byte) (int, error) {
	n, _ := l.text.Write(p)
	if line, _, found := strings.Cut(l.text.String(), "\n"); found {
		select {
		case l.got <- line:
		default:
		}
	}
	return n, nil
}

// state returns the kernel's letter for the state of a process, 0 without a process.
func state(pid int) byte {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	return stat[bytes.LastIndexByte(stat, ')')+2]
}

// ended reports whether a process has ended. A zombie, which its parent has not waited
// for, has ended too.
func ended(pid int) bool { return state(pid) == 0 || state(pid) == 'Z' }
