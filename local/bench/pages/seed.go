//go:build unix

package pages

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/usage"
	"tidegate/internal/usage/statelist"
	"tidegate/local/bench/harness"
)

// batch is the number of keys in a flush of commands.
const batch = 5000

// seed fills a store with keys. The registry creates the models; the other keys are
// copies of the models' records under other names.
type seed struct {
	options
	*harness.Server
	models []model
	heads  map[keyspace.Bucket][]byte // of each audit chain
	random *rand.Rand
}

// model is a key of which other keys are copies.
type model struct {
	key    policy.Key
	record []byte   // as the registry wrote it
	lists  []string // names of the lists that have the key
	limits []limiter.Limit
}

const (
	modelName = "customer-0000000"
	modelTag  = "team-00"
)

func newSeed(server *harness.Server, o options) *seed {
	return &seed{
		options: o, Server: server, heads: map[keyspace.Bucket][]byte{},
		random: rand.New(rand.NewPCG(1, 2)), //nolint:gosec // the same data each time
	}
}

// write writes all data.
func (s *seed) write(ctx context.Context) error {
	began := time.Now()
	for _, step := range []func(context.Context) error{
		s.savePlans, s.makeModels, s.copyKeys, s.recordCalls, s.takeCalls, s.addToStateLists,
	} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("seed: %w", err)
		}
	}
	fmt.Printf("seeded %d keys in %s\n", s.keys, time.Since(began).Round(time.Second))
	return nil
}

func (s *seed) savePlans(ctx context.Context) error {
	return s.Edit(ctx, func(set *policy.Set) {
		for i, name := range []string{"free", "pro", "enterprise"} {
			n := int64(10)
			for range i {
				n *= 10
			}
			p := policy.Plan{Name: name, Limits: []limiter.Limit{{Requests: n, Window: 10 * time.Second},
				{Requests: 100 * n, Window: time.Hour}}}
			if name == "pro" {
				p.Candidate = []limiter.Limit{{Requests: 50, Window: 10 * time.Second}}
			}
			set.Plans = append(set.Plans, p)
		}
	})
}

// makeModels creates the models: keys of three plans, some tagged, and one in a hundred
// each overridden, overridden in shadow mode, expiring soon and revoked.
func (s *seed) makeModels(ctx context.Context) error {
	set, err := s.Set(ctx)
	if err != nil {
		return err
	}
	for i := range 100 {
		plan := set.Plans[min(i%10/4, len(set.Plans)-1)]
		n := policy.NewKey{Name: modelName, Env: "live", Plan: plan.Name}
		if i%2 == 0 {
			n.Tags = []string{modelTag}
		}
		k, _, err := s.Create(ctx, n, s.By)
		if err != nil {
			return err
		}
		m := model{key: k, limits: plan.Limits}
		m.key, err = s.Update(ctx, k.ID, k.Version, audit.KeyOverride, s.By, func(k *policy.Key) {
			switch i {
			case 0, 1:
				m.limits = []limiter.Limit{{Requests: 25, Window: time.Minute}}
				k.Override = &policy.Override{Limits: m.limits, Mode: []policy.Mode{"", policy.Shadow}[i],
					Reason: "launch", Until: time.Now().Add(72 * time.Hour)}
			case 2:
				k.Expires = time.Now().Add(72 * time.Hour)
			case 3:
				k.Status = policy.Revoked
			}
		})
		if err != nil {
			return err
		}
		s.models = append(s.models, m)
	}
	for i := range s.models {
		if err := s.readModel(ctx, &s.models[i]); err != nil {
			return err
		}
	}
	return nil
}

// readModel reads the record that the registry wrote for a model, and finds the lists
// that have the model.
func (s *seed) readModel(ctx context.Context, m *model) error {
	var err error
	b := s.Client.B()
	m.record, err = s.Client.Do(ctx, b.Get().Key(keyspace.Record(m.key.ID)).Build()).AsBytes()
	if err != nil {
		return err
	}
	lists, err := s.Client.Do(ctx, b.Keys().Pattern("tg:keys*").Build()).AsStrSlice()
	if err != nil {
		return err
	}
	for _, list := range lists {
		score := b.Zscore().Key(list).Member(memberOf(m.key.Name, m.key.ID)).Build()
		switch err := s.Client.Do(ctx, score).Error(); {
		case err == nil:
			m.lists = append(m.lists, list)
		case !valkey.IsValkeyNil(err):
			return err
		}
	}
	return nil
}

func memberOf(name, id string) string { return name + "\x00" + id }

// id returns the id of the i-th key, with the length of a real id. The ids of keys with
// consecutive names are spread over the buckets.
func id(i int) string { return fmt.Sprintf("%012d", i) }

func nameOf(i int) string { return fmt.Sprintf("customer-%07d", i) }

func tagOf(i int) string { return fmt.Sprintf("team-%02d", i/2%100) }

func (s *seed) copyKeys(ctx context.Context) error {
	for from := 0; from < s.keys; from += batch {
		var commands valkey.Commands
		members := map[string][]string{}
		for i := from; i < min(from+batch, s.keys); i++ {
			m := s.models[i%len(s.models)]
			record := bytes.ReplaceAll(bytes.Replace(m.record, []byte(modelName), []byte(nameOf(i)), 1),
				[]byte(modelTag), []byte(tagOf(i)))
			commands = append(commands, s.Client.B().Set().Key(keyspace.Record(id(i))).Value(
				valkey.BinaryString(record)).Build())
			for _, list := range m.lists {
				list = strings.Replace(list, modelTag, tagOf(i), 1)
				members[list] = append(members[list], memberOf(nameOf(i), id(i)))
			}
			entry, err := s.entry(ctx, m.key, i)
			if err != nil {
				return err
			}
			commands = append(commands, entry)
		}
		for list, all := range members {
			add := s.Client.B().Zadd().Key(list).ScoreMember()
			for _, member := range all {
				add = add.ScoreMember(0, member)
			}
			commands = append(commands, add.Build())
		}
		if err := s.send(ctx, commands); err != nil {
			return err
		}
	}
	return nil
}

// entry returns the command that adds the creation of the i-th key to the audit log.
func (s *seed) entry(ctx context.Context, k policy.Key, i int) (valkey.Completed, error) {
	k.ID, k.Name = id(i), nameOf(i)
	b := keyspace.BucketOf(k.ID)
	head, known := s.heads[b]
	if !known {
		var err error
		if head, err = s.Audit().Head(ctx, b); err != nil {
			return valkey.Completed{}, err
		}
	}
	after, err := json.Marshal(k)
	if err != nil {
		return valkey.Completed{}, err
	}
	by := audit.Actor{Kind: "user", Name: fmt.Sprintf("editor-%d", i%7)}
	sealed, err := s.Audit().Key().Seal(b, head, audit.Entry{
		Time: k.Created, By: by, Action: "key.create", Subject: k.ID, Name: k.Name, Reason: "seed",
		Version: 1, After: after,
	})
	s.heads[b] = sealed.Next
	return s.Client.B().Xadd().Key(audit.Stream(b)).Id("*").FieldValue().FieldValue("e",
		valkey.BinaryString(sealed.Body)).
		FieldValue("h", valkey.BinaryString(sealed.Hash)).Build(), err
}

func (s *seed) send(ctx context.Context, commands valkey.Commands) error {
	for _, result := range s.Client.DoMulti(ctx, commands...) {
		if err := result.Error(); err != nil {
			return err
		}
	}
	return nil
}

// activeKey returns the number of the i-th active key. Every tenth key is active.
func (s *seed) activeKey(i int) int { return i * (s.keys / s.active) }

// hours has the times of the active keys' calls, in hours from now.
var hours = []int{-23, -12, -3, -2, -1, 0}

// recordCalls records usage: calls by every active key in each of the hours, and by some
// active keys in every minute of the last hour.
func (s *seed) recordCalls(ctx context.Context) error {
	now := time.Now()
	r := usage.NewRecorder(usage.Options{}, time.Now)
	for _, hour := range hours {
		for i := range s.active {
			at := now.Add(time.Duration(hour)*time.Hour - time.Duration(s.random.IntN(50))*time.Minute)
			for range 1 + s.random.IntN(3) {
				r.Record(usage.Outcome{Subject: id(s.activeKey(i)), Registered: true,
					Verdict: usage.Verdict(s.random.IntN(2)), Time: at})
			}
			if i%6 == 5 { // a recorder holds the totals of a few minutes only
				if err := flush(ctx, r, s.Client); err != nil {
					return err
				}
			}
		}
	}
	return s.steadyCalls(ctx, r, now)
}

// steady is the number of keys with calls in every minute of the last hour.
const steady = 500

func (s *seed) steadyCalls(ctx context.Context, r *usage.Recorder, now time.Time) error {
	for minute := range 60 {
		for i := range min(steady, s.active) {
			for range 1 + i%20 {
				r.Record(usage.Outcome{Subject: id(s.activeKey(i)), Registered: true,
					Verdict: usage.Verdict(i % 2),
					Time:    now.Add(-time.Duration(minute) * time.Minute)})
			}
		}
		if err := flush(ctx, r, s.Client); err != nil {
			return err
		}
	}
	return nil
}

func flush(ctx context.Context, r *usage.Recorder, client valkey.Client) error {
	report := r.Flush(ctx, client)
	if report.Err == nil && report.Lost+report.Returned > 0 {
		return fmt.Errorf("lost %d, returned %d", report.Lost, report.Returned)
	}
	return report.Err
}

// takeCalls takes calls from the limits of the active keys.
func (s *seed) takeCalls(ctx context.Context) error {
	sha, err := s.Client.Do(ctx, s.Client.B().ScriptLoad().Script(limiter.TakeScript()).Build()).ToString()
	if err != nil {
		return err
	}
	for from := 0; from < s.active; from += batch {
		var commands valkey.Commands
		for i := from; i < min(from+batch, s.active); i++ {
			n := s.activeKey(i)
			m := s.models[n%len(s.models)]
			program, err := limiter.Compile(m.limits, time.Now())
			if err != nil {
				return err
			}
			cost := fmt.Sprint(1 + s.random.Int64N(m.limits[0].Requests))
			commands = append(commands, s.Client.B().Evalsha().Sha1(sha).Numkeys(1).Key(
				keyspace.State(id(n))).
				Arg(valkey.BinaryString(program), cost, "0").Build())
		}
		if err := s.send(ctx, commands); err != nil {
			return err
		}
	}
	return nil
}

// listed is the number of keys in each list of states. All of them may have left the
// state by now. This is the worst case for a page, which then reads every key.
const listed = 2000

// addToStateLists adds keys to the lists of states.
func (s *seed) addToStateLists(ctx context.Context) error {
	var commands valkey.Commands
	for i := range min(listed, s.active) {
		for _, list := range []statelist.List{statelist.OverLimit, statelist.Banned, statelist.NearLimit} {
			commands = append(commands,
				statelist.Add(s.Client, list, id(s.activeKey(i)), time.Now().Add(time.Hour))...)
		}
	}
	return s.send(ctx, commands)
}
