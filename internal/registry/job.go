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
// holder of the lease runs the job's next step. Its stop mark is a third key, which
// anybody may write, also during a step. None is configuration, so all expire. The audit
// records when a job started and ended, and what it changed.

// jobLife is how long a job is stored after its last step.
const jobLife = 30 * 24 * time.Hour

// jobsKey is the sorted set of jobs that have not ended; scores are their starts in Unix
// seconds.
const jobsKey = keyspace.Prefix + "jobs"

// recentJobsKey is the sorted set of the jobs that started within jobLife, with the same
// scores. It is an index: the audit log has all jobs among all changes.
const (
	recentJobsKey = keyspace.Prefix + "jobs:recent"
	maxRecentJobs = 200 // that are listed
)

func jobKey(id string) string { return keyspace.Of(id, "j") }

func jobLeaseKey(id string) string { return keyspace.Of(id, "jl") }

func jobStopKey(id string) string { return keyspace.Of(id, "js") }

//go:embed lua/job.lua
var jobLua string

var jobScript = valkey.NewLuaScript(jobLua)

// CreateJob stores a job and lists it as one that has not ended.
func (s *Store) CreateJob(ctx context.Context, id, text string) error {
	oldest := strconv.FormatInt(s.Now().Add(-jobLife).Unix(), 10)
	for _, result := range s.client.DoMulti(ctx,
		s.client.B().Zremrangebyscore().Key(jobsKey).Min("-inf").Max(oldest).Build(),
		s.client.B().Zremrangebyscore().Key(recentJobsKey).Min("-inf").Max(oldest).Build(),
		s.listJob(jobsKey, id),
		s.listJob(recentJobsKey, id),
		s.client.B().Set().Key(jobKey(id)).Value(text).Nx().Ex(jobLife).Build(),
	) {
		if err := result.Error(); err != nil && !valkey.IsValkeyNil(err) {
			return fmt.Errorf("registry: create job: %w", err)
		}
	}
	return nil
}

func (s *Store) listJob(key, id string) valkey.Completed {
	started := float64(s.Now().UnixMilli()) / 1000
	return s.client.B().Zadd().Key(key).ScoreMember().ScoreMember(started, id).Build()
}

// ListJob adds a job to the list of those that have not ended, or removes it.
func (s *Store) ListJob(ctx context.Context, id string, open bool) error {
	command := s.client.B().Zrem().Key(jobsKey).Member(id).Build()
	if open {
		command = s.listJob(jobsKey, id)
	}
	if err := s.client.Do(ctx, command).Error(); err != nil {
		return fmt.Errorf("registry: list job: %w", err)
	}
	return nil
}

// OpenJobs returns the ids of jobs that have not ended, oldest first.
func (s *Store) OpenJobs(ctx context.Context) ([]string, error) {
	list := s.client.B().Zrange().Key(jobsKey).Min("0").Max("-1").Build()
	ids, err := s.client.Do(ctx, list).AsStrSlice()
	if err != nil {
		return nil, fmt.Errorf("registry: list jobs: %w", err)
	}
	return ids, nil
}

// RecentJobs returns the ids of up to 200 jobs that started in the last 30 days, newest
// first.
func (s *Store) RecentJobs(ctx context.Context) ([]string, error) {
	last := strconv.Itoa(maxRecentJobs - 1)
	list := s.client.B().Zrange().Key(recentJobsKey).Min("0").Max(last).Rev().Build()
	ids, err := s.client.Do(ctx, list).AsStrSlice()
	if err != nil {
		return nil, fmt.Errorf("registry: list jobs: %w", err)
	}
	return ids, nil
}

// StoredJob is a job's text and its stop mark, each empty if it is not stored.
type StoredJob struct{ Text, Stop string }

// Jobs returns jobs in the order of ids. It fails with ErrNotFound if one of ids cannot be
// an id.
func (s *Store) Jobs(ctx context.Context, ids ...string) ([]StoredJob, error) {
	reads := make([]valkey.Completed, len(ids))
	for i, id := range ids {
		if !validID(id) {
			return nil, policy.ErrNotFound
		}
		reads[i] = s.client.B().Mget().Key(jobKey(id), jobStopKey(id)).Build()
	}
	jobs := make([]StoredJob, len(ids))
	for i, result := range s.client.DoMulti(ctx, reads...) {
		stored, err := result.AsStrSlice() // "" for a missing key
		if err != nil {
			return nil, fmt.Errorf("registry: read job: %w", err)
		}
		jobs[i] = StoredJob{stored[0], stored[1]}
	}
	return jobs, nil
}

// StopJob marks a job as stopped, whoever holds its lease. stop must differ from the mark
// of every earlier stop of the job.
func (s *Store) StopJob(ctx context.Context, id, stop string) error {
	mark := s.client.B().Set().Key(jobStopKey(id)).Value(stop).Ex(jobLife).Build()
	if err := s.client.Do(ctx, mark).Error(); err != nil {
		return fmt.Errorf("registry: stop job: %w", err)
	}
	return nil
}

// LeaseJob takes a job's lease for holder and reports whether it was free. The lease
// expires after life by Valkey's clock.
func (s *Store) LeaseJob(ctx context.Context, id, holder string, life time.Duration) (bool, error) {
	take := s.client.B().Set().Key(jobLeaseKey(id)).Value(holder).Nx().Px(life).Build()
	err := s.client.Do(ctx, take).Error()
	if err != nil && !valkey.IsValkeyNil(err) {
		return false, fmt.Errorf("registry: lease job: %w", err)
	}
	return err == nil, nil
}

// JobSave is a job's text as the holder of its lease stores it.
type JobSave struct {
	Holder  string
	Text    string
	Resumed string // stop mark after which the job was last continued; empty for none
	Release bool   // whether to release the lease
}

// SaveJob stores a job's text if the holder still has its lease. It reports whether the
// text was stored, and whether the job was stopped after Resumed.
func (s *Store) SaveJob(ctx context.Context, id string, j JobSave) (saved, stopped bool, err error) {
	args := []string{j.Holder, j.Text, strconv.FormatInt(jobLife.Milliseconds(), 10), "", j.Resumed}
	if j.Release {
		args[3] = "1"
	}
	keys := []string{jobKey(id), jobLeaseKey(id), jobStopKey(id)}
	reply, err := jobScript.Exec(ctx, s.client, keys, args).AsInt64()
	if err != nil {
		return false, false, fmt.Errorf("registry: save job: %w", err)
	}
	return reply > 0, reply == jobStopped, nil
}

// jobStopped is the script's reply if the job was saved and has another stop mark.
const jobStopped = 2
