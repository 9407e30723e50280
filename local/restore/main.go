// Package restore is the command that makes a Valkey again from the log of changes, and
// the hand that mends a log.
package restore

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/changes"
	"tidegate/internal/objects"
	"tidegate/internal/registry"
	"tidegate/internal/store"
	"tidegate/internal/store/keyspace"
	"tidegate/local/cli"
)

// Exit statuses.
const (
	done = iota
	failed
)

const (
	dialTimeout  = 10 * time.Second
	writeTimeout = time.Minute
)

type options struct {
	log, valkey string
	pepper      apikey.Pepper
	dryRun      bool
	take        bool
	void        uint64    // 0 for none
	until       uint64    // 0 for none
	untilTime   time.Time // zero for none
}

const about = `Makes a Valkey again from the log of changes: keys, policies and machine tokens. It brings
what is missing, as the admin function does each minute, and prints how far Valkey is.

  KEY_PEPPER=… restore -log s3://BUCKET[/PREFIX]|FOLDER -valkey URL [flags]

KEY_PEPPER is the pepper of the functions, which authenticates the log. A bucket is read
with the AWS credentials of the environment. Exit status: 0 when Valkey is at the newest
change, 1 when it is not, 2 for bad usage.
`

// Run runs the command and returns its exit status.
func Run(ctx context.Context, args []string, getenv func(string) string, out, errOut io.Writer) int {
	o, err := parse(args, getenv, out)
	if err != nil {
		return cli.Refuse("restore", err, errOut)
	}
	if err := restore(ctx, o, out); err != nil {
		_, _ = fmt.Fprintf(errOut, "restore: %v\n", err)
		return failed
	}
	return done
}

func parse(args []string, getenv func(string) string, out io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("restore", flag.ContinueOnError)
	f.StringVar(&o.log, "log", "", "`address` of the log of changes: s3://BUCKET[/PREFIX] or a folder")
	f.StringVar(&o.valkey, "valkey", "", "`URL` of the Valkey: valkey://host:6379 or valkeys://…")
	f.BoolVar(&o.dryRun, "dry-run", false, "only print how far Valkey is")
	f.BoolVar(&o.take, "take", false,
		"make all of Valkey again from this log, also if Valkey holds changes\n"+
			"that the log lacks: these are lost")
	f.Func("until", "give everything the state after a change's `number`, or at a time\n"+
		"such as 2026-11-22T14:03:00Z, by new changes; what was revoked stays\n"+
		"revoked", o.setUntil)
	f.Func("void", "say by a new change that the change with this `number` is nothing,\n"+
		"since its object is missing or damaged", func(text string) (err error) {
		o.void, err = changeNumber(text)
		return err
	})
	if err := cli.Parse(f, args, about, out); err != nil {
		return o, err
	}
	if o.log == "" || o.valkey == "" {
		return o, errors.New("-log and -valkey are required")
	}
	var err error
	if err = objects.CheckAddress(o.log); err != nil {
		return o, fmt.Errorf("-log %w", err)
	}
	if err = store.CheckURL(o.valkey); err != nil {
		return o, fmt.Errorf("-valkey: %w", err)
	}
	until := o.until > 0 || !o.untilTime.IsZero()
	if o.take && until || o.take && o.void > 0 || until && o.void > 0 {
		return o, errors.New("-take, -until and -void: give one of them at a time")
	}
	if o.pepper, err = apikey.NewPepper(getenv("KEY_PEPPER")); err != nil {
		return o, errors.New("KEY_PEPPER: set it to that of the functions")
	}
	return o, nil
}

func (o *options) setUntil(text string) (err error) {
	if !strings.Contains(text, "-") {
		o.until, err = changeNumber(text)
		return err
	}
	if o.untilTime, err = time.Parse(time.RFC3339, text); err != nil {
		return errors.New("must be a change's number, or a time such as 2026-11-22T14:03:00Z")
	}
	return nil
}

func changeNumber(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		return 0, errors.New("must be the number of a change, such as 124")
	}
	return n, nil
}

func restore(ctx context.Context, o options, out io.Writer) error {
	isS3 := strings.HasPrefix(o.log, "s3://")
	if info, err := os.Stat(o.log); err != nil && !isS3 || err == nil && !info.IsDir() {
		return fmt.Errorf("-log %s: the folder does not exist", o.log)
	}
	stored, err := objects.Open(o.log)
	if err != nil {
		return err
	}
	client, err := store.Open(ctx, o.valkey, store.Options{Dial: dialTimeout, Write: writeTimeout})
	if err != nil {
		return fmt.Errorf("-valkey: %w", err)
	}
	defer client.Close()
	log := registry.New(client, stored, o.pepper).Log()
	if o.dryRun {
		err := report(ctx, log, out)
		_, _ = fmt.Fprintln(out, "Nothing was written: -dry-run.")
		return err
	}
	began := time.Now()
	if err := o.write(ctx, log, out); err != nil {
		return err
	}
	err = report(ctx, log, out)
	_, _ = fmt.Fprintf(out, "It took %s. Counts are as they were, and start at 0 in an empty Valkey.\n",
		time.Since(began).Round(time.Millisecond))
	return err
}

// write does what the flags ask for.
func (o *options) write(ctx context.Context, log *changes.Log, out io.Writer) error {
	edit := changes.Edit{By: "system:restore"}
	switch {
	case o.take:
		return log.TakeOver(ctx)
	case o.void > 0:
		return log.Void(ctx, edit, o.void)
	}
	if err := log.CatchUp(ctx); err != nil {
		return err
	}
	if !o.untilTime.IsZero() {
		var err error
		if o.until, err = log.NumberAt(ctx, o.untilTime); err != nil {
			return err
		}
		if o.until == 0 {
			return errors.New("-until: the log begins after this time")
		}
	}
	if o.until == 0 {
		return nil
	}
	edit.Action, edit.Why = registry.KeyRevert, fmt.Sprintf("back to change %d", o.until)
	made, err := log.RestoreUntil(ctx, edit, o.until)
	_, _ = fmt.Fprintf(out, "%d new changes lead back to change %d.\n", made, o.until)
	return err
}

// report prints how far Valkey is.
func report(ctx context.Context, log *changes.Log, out io.Writer) error {
	s, err := log.Status(ctx)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out,
		"newest change of the log: %d; parts of Valkey behind it: %d of %d, at change %d "+
			"or later; that do not answer: %d; revocations not yet in the log: %d\n",
		s.Newest, s.Behind, keyspace.Buckets, s.Lowest, s.Away, s.Marks)
	return nil
}
