package registry

import (
	"context"
	_ "embed" // the script
	"fmt"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
)

// A bulk job is stored as a text that its caller encodes. Its lease is a second key: the
// lease's holder takes the job's next step. Neither is configuration, so both expire. The
// audit has when a job started and ended, and what it changed.

// jobLife is how long a job is stored after its last step.
const jobLife = 30 * 24 * time.Hour

// jobsKey is a sorted set of the jobs that have not ended, by when they started.
const jobsKey = keyspace.Prefix + "jobs"

func jobKey(id string) string { return keyspace.Of(id, "j") }

func jobLeaseKey(id string) string { return keyspace.Of(id, "jl") }

//go:embed lua/job.lua
var jobLua string

var jobScript = valkey.NewLuaScript(jobLua)

// CreateJob stores a job and lists it as one that has not ended.
func (s *Store) CreateJob(ctx context.Context, id, text string) error {
	oldest := strconv.FormatInt(s.Now().Add(-jobLife).Unix(), 10)
	for _, result := range s.client.DoMulti(ctx,
		s.client.B().Zremrangebyscore().Key(jobsKey).Min("-inf").Max(oldest).Build(),
		s.listJob(id),
		s.client.B().Set().Key(jobKey(id)).Value(text).Nx().Ex(jobLife).Build(),
	) {
		if err := result.Error(); err != nil && !valkey.IsValkeyNil(err) {
			return fmt.Errorf("policy: create job: %w", err)
		}
	}
	return nil
}

func (s *Store) listJob(id string) valkey.Completed {
	return s.client.B().Zadd().Key(jobsKey).ScoreMember().ScoreMember(float64(s.Now().Unix()), id).Build()
}

// ListJob lists a job as one that has not ended, or takes it from the list.
func (s *Store) ListJob(ctx context.Context, id string, open bool) error {
	command := s.client.B().Zrem().Key(jobsKey).Member(id).Build()
	if open {
		command = s.listJob(id)
	}
	if err := s.client.Do(ctx, command).Error(); err != nil {
		return fmt.Errorf("policy: list job: %w", err)
	}
	return nil
}

// OpenJobs returns the ids of jobs that have not ended, the oldest first.
func (s *Store) OpenJobs(ctx context.Context) ([]string, error) {
	list := s.client.B().Zrange().Key(jobsKey).Min("0").Max("-1").Build()
	ids, err := s.client.Do(ctx, list).AsStrSlice()
	if err != nil {
		return nil, fmt.Errorf("policy: list jobs: %w", err)
	}
	return ids, nil
}

// Job returns a job's text, or ErrNotFound.
func (s *Store) Job(ctx context.Context, id string) (string, error) {
	if !validID(id) {
		return "", policy.ErrNotFound
	}
	text, err := s.client.Do(ctx, s.client.B().Get().Key(jobKey(id)).Build()).ToString()
	switch {
	case valkey.IsValkeyNil(err):
		return "", policy.ErrNotFound
	case err != nil:
		return "", fmt.Errorf("policy: read job: %w", err)
	}
	return text, nil
}

// LeaseJob takes a job's lease under a name of the caller's, and reports whether it was
// free. It ends by itself after a time, by Valkey's clock.
func (s *Store) LeaseJob(ctx context.Context, id, holder string, life time.Duration) (bool, error) {
	take := s.client.B().Set().Key(jobLeaseKey(id)).Value(holder).Nx().Px(life).Build()
	err := s.client.Do(ctx, take).Error()
	if err != nil && !valkey.IsValkeyNil(err) {
		return false, fmt.Errorf("policy: lease job: %w", err)
	}
	return err == nil, nil
}

// SaveJob stores a job's text while the holder has its lease, and reports whether it has.
// With release the lease is given back.
func (s *Store) SaveJob(ctx context.Context, id, holder, text string, release bool) (bool, error) {
	args := []string{holder, text, strconv.FormatInt(jobLife.Milliseconds(), 10), ""}
	if release {
		args[3] = "1"
	}
	saved, err := jobScript.Exec(ctx, s.client, []string{jobKey(id), jobLeaseKey(id)}, args).AsInt64()
	if err != nil {
		return false, fmt.Errorf("policy: save job: %w", err)
	}
	return saved == 1, nil
}
