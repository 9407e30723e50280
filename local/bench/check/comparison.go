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
	"maps"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"tidegate/local/bench/figures"
	"tidegate/local/bench/harness"
)

// credential is how the callers of a comparison identify themselves.
type credential struct {
	prefix string // of the names of figures, after "check."; "" for API keys
	title  string
	env    map[string]string // of authorizers that accept this credential
	events [][]byte
}

// measured has the results of one authorizer with one credential.
type measured struct {
	name           string
	cold, p50, p99 time.Duration
	rss, size      float64 // MiB
}

// comparison has a row for each authorizer, the check function first.
type comparison struct {
	credential credential
	rows       []measured
}

// compareAll compares the check function with its peers, first with API keys, then with
// tokens.
func (b *bench) compareAll(ctx context.Context) ([]figures.Figure, error) {
	if err := b.registerWithPeers(ctx); err != nil {
		return nil, err
	}
	issuer, err := newIssuer()
	if err != nil {
		return nil, err
	}
	defer issuer.Close()
	tokens, err := issuer.events(callers)
	if err != nil {
		return nil, err
	}
	var all []figures.Figure
	for _, c := range []credential{{"", "API key", nil, b.events}, {"jwt_", "JWT", issuer.env(), tokens}} {
		compared, err := b.compare(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.title, err)
		}
		all = append(all, compared.figures()...)
	}
	return all, nil
}

// registerWithPeers stores the API keys for the peers' look-ups.
func (b *bench) registerWithPeers(ctx context.Context) error {
	for i, secret := range b.secrets {
		hash := hmac.New(sha256.New, []byte(harness.Pepper))
		hash.Write([]byte(secret))
		command := b.Client.B().Hset().Key("peers:key:"+hex.EncodeToString(hash.Sum(nil))).FieldValue().
			FieldValue("id", fmt.Sprint("caller-", i)).FieldValue("plan", "pro").Build()
		if err := b.Client.Do(ctx, command).Error(); err != nil {
			return fmt.Errorf("store a key for the peers: %w", err)
		}
	}
	return nil
}

// authorizers returns the functions to compare, the check function first.
func (b *bench) authorizers(c credential) []harness.Function {
	env := map[string]string{"REDIS_URL": strings.Replace(b.URL, "valkey://", "redis://", 1),
		"KEY_PEPPER": harness.Pepper}
	maps.Copy(env, c.env)
	own := map[string]string{}
	maps.Copy(own, b.env)
	maps.Copy(own, c.env)
	return []harness.Function{
		{Name: "Tidegate", Binary: b.check, Env: own, Valid: allowed},
		{Name: "Go", Binary: b.peer, Env: env, Valid: allowed},
		{Name: "Node.js", Binary: b.node, Env: env, Valid: allowed},
	}
}

// compare makes calls to all authorizers in turns, and starts each of them in turns.
func (b *bench) compare(ctx context.Context, c credential) (comparison, error) {
	authorizers := b.authorizers(c)
	rows := make([]measured, len(authorizers))
	for i, f := range authorizers {
		size, err := packed(f.Binary)
		if err != nil {
			return comparison{}, err
		}
		rows[i] = measured{name: f.Name, size: size}
	}
	if err := b.answers(ctx, c, authorizers, rows); err != nil {
		return comparison{}, err
	}
	times, err := harness.ColdStarts(ctx, b.starts, c.events, authorizers...)
	if err != nil {
		return comparison{}, err
	}
	for i := range rows {
		rows[i].cold = figures.Median(times[i])
	}
	return comparison{c, rows}, nil
}

// answers makes peerCalls calls to each authorizer. It does not count the first fifth,
// which engines with a just-in-time compiler need to warm up.
func (b *bench) answers(
	ctx context.Context, c credential, authorizers []harness.Function, rows []measured,
) error {
	all, err := harness.OpenAll(authorizers...)
	if err != nil {
		return err
	}
	defer all.Close()
	times, pids := make([][]time.Duration, len(all)), make([]int, len(all))
	for call := range b.peerCalls {
		for turn := range all {
			i := (call + turn) % len(all) // in rotating order
			r, _, err := all[i].Invoke(ctx, c.events[call%len(c.events)])
			if err != nil {
				return err
			}
			pids[i] = r.PID
			if call >= b.peerCalls/5 {
				times[i] = append(times[i], harness.Took(r))
			}
		}
	}
	for i := range rows {
		if rows[i].rss, err = resident(ctx, pids[i]); err != nil {
			return err
		}
		rows[i].p50, rows[i].p99 = figures.Median(times[i]), figures.Quantile(times[i], 0.99)
	}
	return nil
}

// figures returns the values of each authorizer, and the ratios of each peer to the check
// function.
func (c comparison) figures() []figures.Figure {
	var all []figures.Figure
	names := map[string]string{"Tidegate": "ours", "Go": "go", "Node.js": "node"}
	for _, r := range c.rows {
		name := "check." + c.credential.prefix + names[r.name]
		all = append(all, figures.InMillis(name+"_coldstart_ms", r.cold),
			figures.InMicros(name+"_p50_us", r.p50), figures.InMicros(name+"_p99_us", r.p99),
			figures.Of(name+"_rss_mib", r.rss, "MiB"), figures.Of(name+"_package_mib", r.size, "MiB"))
	}
	ours := c.rows[0]
	for _, r := range c.rows[1:] {
		prefix, peer := "check."+c.credential.prefix, "_vs_"+names[r.name]
		all = append(all, figures.Ratio(prefix+"coldstart"+peer, r.cold, ours.cold),
			figures.Ratio(prefix+"p50"+peer, r.p50, ours.p50),
			figures.Ratio(prefix+"p99"+peer, r.p99, ours.p99),
			figures.Of(prefix+"rss"+peer, r.rss/ours.rss, "ratio"))
	}
	return all
}

const mib = 1 << 20

// packed returns the size in MiB of a zip with one file, without the directory.
func packed(file string) (float64, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("package: %w", err)
	}
	var zipped bytes.Buffer
	w, err := flate.NewWriter(&zipped, flate.DefaultCompression)
	if err != nil {
		return 0, fmt.Errorf("package: %w", err)
	}
	_, _ = w.Write(content) // a write to memory does not fail
	_ = w.Close()
	return float64(zipped.Len()) / mib, nil
}

var errResident = errors.New("read the resident memory of a process")

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
