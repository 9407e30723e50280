package app

import (
	"context"
	"time"

	"tidegate/internal/policy"
)

// Bounds of a JobReview.
const (
	maxReviewed  = Chunk           // keys that are compared
	maxReviewing = 1 * time.Second // how long keys are searched for
	maxReviewRow = 10              // keys that are shown
)

// JobReview compares the first keys that a job selects with what the job would make of
// them.
type JobReview struct {
	Rows   []KeyReview // the first keys that would change
	Read   int         // keys that were compared
	Change int         // those of them that would change
	Whole  bool        // no other keys are selected
}

// KeyReview is a key before and after a change.
type KeyReview struct {
	Before Subject
	After  policy.Key
}

// Numbered returns the job with the number that a set has for the name of its plan.
func (j Job) Numbered(set *policy.Set) Job {
	if p, found := set.Plan(j.Plan); found {
		j.PlanNumber = p.Number
	}
	return j
}

// ReviewJob compares up to maxReviewed keys, in the order of the job's steps.
func (r *Registry) ReviewJob(ctx context.Context, set *policy.Set, j Job) (JobReview, error) {
	j = j.Numbered(set)
	var review JobReview
	for began := time.Now(); review.Read < maxReviewed && time.Since(began) < maxReviewing; {
		keys, next, err := r.selectedKeys(ctx, set, j, maxReviewed-review.Read)
		if err == nil {
			review.compare(set, j, keys)
		}
		if err != nil {
			return review, err
		}
		if j.After = next; next == "" {
			review.Whole = true
			break
		}
	}
	shown := make([]policy.Key, len(review.Rows))
	for i, row := range review.Rows {
		shown[i] = row.Before.Key
	}
	counted, err := Subjects(ctx, r, set, shown)
	for i, s := range counted {
		review.Rows[i].Before = s
	}
	return review, err
}

// compare adds keys to a review.
func (review *JobReview) compare(set *policy.Set, j Job, keys []policy.Key) {
	for _, k := range keys {
		review.Read++
		after, differs := j.Result(set, k)
		if _, record := recordActions[j.Do]; record && after.Validate(set, k) != nil {
			continue // the job would fail to change it
		}
		if k.Status != policy.Active || !differs {
			continue
		}
		if review.Change++; len(review.Rows) < maxReviewRow {
			review.Rows = append(review.Rows, KeyReview{Subject{Key: k}, after})
		}
	}
}
