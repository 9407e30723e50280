//go:build unix

package check

import (
	"bytes"
	"compress/flate"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"tidegate/local/bench/figures"
	"tidegate/local/bench/runtimeapi"
)

// credential is a way for the callers of a comparison to identify themselves.
type credential struct {
	name   string // the part that figures have in their names, "" for API keys
	title  string
	env    []string
	events [][]byte
}

// measured has one authorizer's results with one credential.
type measured struct {
	name           string
	cold, p50, p99 time.Duration
	rss, size      float64 // MiB
}

// comparison has a row for each authorizer, ours first.
type comparison struct {
	credential credential
	rows       []measured
}

// compared measures the check function and its peers, first with API keys, then with
// tokens.
func (b *bench) compared(ctx context.Context) ([]figures.Figure, error) {
	if err := b.registerWithPeers(ctx); err != nil {
		return nil, err
	}
	issuer, err := newIssuer()
	if err != nil {
		return nil, err
	}
	defer issuer.close()
	tokens, err := issuer.events(callers)
	if err != nil {
		return nil, err
	}
	load := figures.LoadAverage()
	var all []figures.Figure
	var comparisons []comparison
	for _, c := range []credential{{"", "API key", nil, b.events}, {"jwt_", "JWT", issuer.env(), tokens}} {
		compared, err := b.compare(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.title, err)
		}
		all, comparisons = append(all, compared.figures()...), append(comparisons, compared)
	}
	if b.record == "" {
		return all, nil
	}
	about, err := b.conditions(ctx, load)
	if err != nil {
		return nil, err
	}
	return all, record(b.record, about, comparisons)
}

// registerWithPeers stores the API keys for the peers' look-ups.
func (b *bench) registerWithPeers(ctx context.Context) error {
	for i, secret := range b.secrets {
		hash := hmac.New(sha256.New, []byte(pepper))
		hash.Write([]byte(secret))
		command := b.client.B().Hset().Key("peers:key:"+hex.EncodeToString(hash.Sum(nil))).FieldValue().
			FieldValue("id", fmt.Sprint("caller-", i)).FieldValue("plan", "pro").Build()
		if err := b.client.Do(ctx, command).Error(); err != nil {
			return fmt.Errorf("store a key for the peers: %w", err)
		}
	}
	return nil
}

// authorizers are the compared ones, ours first.
func (b *bench) authorizers(c credential) ([]runtimeapi.Function, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	theirs := append([]string{"REDIS_URL=" + strings.Replace(b.url, "valkey://", "redis://", 1),
		"KEY_PEPPER=" + pepper}, c.env...)
	return []runtimeapi.Function{
		{Name: "Tidegate", Command: []string{b.check}, Env: append(append([]string{}, b.env...), c.env...)},
		{Name: "Go", Command: []string{b.peer}, Env: theirs},
		{Name: "Node.js", Command: []string{node, b.node}, Env: theirs},
	}, nil
}

// compare makes calls to all authorizers in turns, and starts each of them in turns.
func (b *bench) compare(ctx context.Context, c credential) (comparison, error) {
	authorizers, err := b.authorizers(c)
	if err != nil {
		return comparison{}, err
	}
	rows := make([]measured, len(authorizers))
	for i, f := range authorizers {
		size, err := packed(f.Command[len(f.Command)-1])
		if err != nil {
			return comparison{}, err
		}
		rows[i] = measured{name: f.Name, size: size}
	}
	if err := b.answers(ctx, c, authorizers, rows); err != nil {
		return comparison{}, err
	}
	if err := b.starting(ctx, c, authorizers, rows); err != nil {
		return comparison{}, err
	}
	return comparison{c, rows}, nil
}

// answers makes peerCalls calls to each authorizer. It does not count the first fifth,
// which engines with a just-in-time compiler need to warm up.
func (b *bench) answers(
	ctx context.Context, c credential, authorizers []runtimeapi.Function, rows []measured,
) error {
	all, err := startAll(ctx, authorizers)
	defer closeAll(all)
	if err != nil {
		return err
	}
	times := make([][]time.Duration, len(authorizers))
	for call := range b.peerCalls {
		for turn := range authorizers {
			i := (call + turn) % len(authorizers) // in rotating order
			took, err := allowed(all[i], c.events[call%len(c.events)])
			if err != nil {
				return fmt.Errorf("%s: %w", authorizers[i].Name, err)
			}
			if call >= b.peerCalls/5 {
				times[i] = append(times[i], took)
			}
		}
	}
	for i := range rows {
		if rows[i].rss, err = resident(ctx, all[i].PID()); err != nil {
			return err
		}
		rows[i].p50, rows[i].p99 = figures.Quantile(times[i], 0.5), figures.Quantile(times[i], 0.99)
	}
	return nil
}

// startAll starts the authorizers. After an error it returns those that it started.
func startAll(ctx context.Context, functions []runtimeapi.Function) ([]*runtimeapi.Environment, error) {
	var all []*runtimeapi.Environment
	for _, f := range functions {
		started, err := runtimeapi.Start(ctx, f)
		if err != nil {
			return all, err
		}
		all = append(all, started)
	}
	return all, nil
}

func closeAll(all []*runtimeapi.Environment) {
	for _, e := range all {
		e.Close()
	}
}

// starting returns the median of cold starts. It makes a third as many as for echo, since
// Node.js starts slowly.
func (b *bench) starting(
	ctx context.Context, c credential, authorizers []runtimeapi.Function, rows []measured,
) error {
	times := make([][]time.Duration, len(authorizers))
	for start := range max(b.starts/3, 1) {
		for i, f := range authorizers {
			took, answer, err := runtimeapi.ColdStart(ctx, f, c.events[start%len(c.events)])
			if err := mustAllow(answer, err); err != nil {
				return fmt.Errorf("cold start of %s: %w", f.Name, err)
			}
			times[i] = append(times[i], took)
		}
	}
	for i := range rows {
		rows[i].cold = figures.Quantile(times[i], 0.5)
	}
	return nil
}

// figures are the ratios of each peer to ours, and their values.
func (c comparison) figures() []figures.Figure {
	var all []figures.Figure
	add := func(name string, value float64, unit string) {
		all = append(all, figures.Of("check."+c.credential.name+name, value, unit))
	}
	names := map[string]string{"Tidegate": "ours", "Go": "go", "Node.js": "node"}
	for _, r := range c.rows {
		name := names[r.name]
		add(name+"_coldstart_ms", figures.Millis(r.cold), "ms")
		add(name+"_p50_us", figures.Micros(r.p50), "µs")
		add(name+"_p99_us", figures.Micros(r.p99), "µs")
		add(name+"_rss_mib", r.rss, "MiB")
		add(name+"_package_mib", r.size, "MiB")
	}
	ours := c.rows[0]
	for _, r := range c.rows[1:] {
		peer := "_vs_" + names[r.name]
		add("coldstart"+peer, r.cold.Seconds()/ours.cold.Seconds(), "ratio")
		add("p50"+peer, r.p50.Seconds()/ours.p50.Seconds(), "ratio")
		add("p99"+peer, r.p99.Seconds()/ours.p99.Seconds(), "ratio")
		add("rss"+peer, r.rss/ours.rss, "ratio")
	}
	return all
}

const mib = 1 << 20

// packed is the size in MiB of a zip with one file, without the directory.
func packed(file string) (float64, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("package: %w", err)
	}
	var size counter
	w, err := flate.NewWriter(&size, flate.DefaultCompression)
	if err == nil {
		_, err = io.Copy(w, bytes.NewReader(content))
	}
	if err == nil {
		err = w.Close()
	}
	return float64(size) / mib, err
}

type counter int64

// Write counts the bytes.
func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

var errResident = errors.New("the resident memory of a process is not known")

// resident returns the resident memory of a process in MiB.
func resident(ctx context.Context, pid int) (float64, error) {
	id := strconv.Itoa(pid)
	if status, err := os.ReadFile("/proc/" + id + "/status"); err == nil {
		_, rest, _ := strings.Cut(string(status), "VmRSS:")
		if fields := strings.Fields(rest); len(fields) > 0 {
			return kibibytes(fields[0])
		}
	}
	printed, err := exec.CommandContext(ctx, "ps", "-o", "rss=", "-p", id).Output()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errResident, err)
	}
	return kibibytes(strings.TrimSpace(string(printed)))
}

func kibibytes(text string) (float64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errResident, err)
	}
	return n * 1024 / mib, nil
}
