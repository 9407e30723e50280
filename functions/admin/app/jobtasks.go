package app

import (
	"context"
	"sync"

	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
)

// bucketsAtOnce is how many buckets are changed at a time. Changes of one bucket wait for
// one another, and each waits for the journal.
const bucketsAtOnce = 32

// task is the change of one key.
type task struct {
	id, name string
	run      func(context.Context) (changed bool, err error)
}

// inBuckets runs tasks, those of one bucket in their order, for several buckets at a
// time.
func inBuckets(tasks []task, run func(task)) {
	byBucket := map[keyspace.Bucket][]task{}
	for _, t := range tasks {
		b := keyspace.BucketOf(t.id)
		byBucket[b] = append(byBucket[b], t)
	}
	var wait sync.WaitGroup
	slots := make(chan struct{}, bucketsAtOnce)
	for _, of := range byBucket {
		slots <- struct{}{}
		wait.Go(func() {
			for _, t := range of {
				run(t)
			}
			<-slots
		})
	}
	wait.Wait()
}

func (r *Registry) changeTasks(ctx context.Context, set *policy.Set, j Job, count int) (
	[]task, string, error) {
	keys, next, err := r.meant(ctx, set, j, count)
	tasks := make([]task, len(keys))
	for i, k := range keys {
		tasks[i] = task{k.ID, k.Name, func(ctx context.Context) (bool, error) {
			return j.change().apply(ctx, r, k, j.edit())
		}}
	}
	return tasks, next, err
}

// meant are the next keys that are meant, and the cursor behind them.
func (r *Registry) meant(ctx context.Context, set *policy.Set, j Job, count int) ([]policy.Key, string,
	error) {
	switch {
	case j.Filter == nil:
		keys, err := r.Many(ctx, set, j.IDs)
		return keys, "", err
	case !j.Filter.Computed():
		page, err := r.List(ctx, set, *j.Filter, j.After, count)
		return page.Keys, page.Next, err
	}
	found, err := FindKeys(ctx, r, set, *j.Filter, j.After, count)
	keys := make([]policy.Key, len(found.Subjects))
	for i, subject := range found.Subjects {
		keys[i] = subject.Key
	}
	return keys, found.Next, err
}
