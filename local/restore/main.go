// Package restore is the command that restores a Valkey from its journal: keys, policies,
// machine tokens and the newest entries of the audit.
package restore

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/journal"
	"tidegate/internal/objects"
	"tidegate/internal/registry"
	"tidegate/internal/store"
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
	journal, valkey string
	pepper          apikey.Pepper
	journal.Options
}

const about = `Restores a Valkey from its journal: keys, policies and machine tokens, as they were last
acknowledged. First reads and verifies the checkpoint of each part and the entries after
it, and prints what it will do. Run it again to continue an interrupted restore.

  KEY_PEPPER=… restore -journal s3://BUCKET[/PREFIX]|FOLDER -valkey URL [flags]

KEY_PEPPER is the pepper of the functions, which authenticates the journal. A bucket is
read with the AWS credentials of the environment. Exit status: 0 when everything was
restored, 1 when something was not, 2 for bad usage.
`

// Run runs the command and returns its exit status. The counts go to out, the progress to
// errOut.
func Run(ctx context.Context, args []string, getenv func(string) string, out, errOut io.Writer) int {
	o, err := parse(args, getenv, out)
	if err != nil {
		return cli.Refuse("restore", err, errOut)
	}
	if err := restore(ctx, o, out, errOut); err != nil {
		_, _ = fmt.Fprintf(errOut, "restore: %v\n", err)
		return failed
	}
	return done
}

func parse(args []string, getenv func(string) string, out io.Writer) (options, error) {
	var o options
	var until string
	f := flag.NewFlagSet("restore", flag.ContinueOnError)
	f.StringVar(&o.journal, "journal", "", "`address` of the journal: s3://BUCKET[/PREFIX] or a folder")
	f.StringVar(&o.valkey, "valkey", "", "`URL` of the Valkey: valkey://host:6379 or valkeys://…")
	f.BoolVar(&o.DryRun, "dry-run", false, "only print what would be done")
	f.StringVar(&until, "until", "", "restore the state at that `time`, such as 2026-11-22T14:03:00Z;\n"+
		"later changes are reverted, and stay in the journal")
	f.BoolVar(&o.Force, "force", false, "also revert changes that the journal lacks, even those that a\n"+
		"start of the admin function would store in it; without it, parts\n"+
		"of the Valkey with such changes are not restored")
	if err := cli.Parse(f, args, about, out); err != nil {
		return o, err
	}
	if o.journal == "" || o.valkey == "" {
		return o, errors.New("-journal and -valkey are required")
	}
	var err error
	if err = objects.CheckAddress(o.journal); err != nil {
		return o, fmt.Errorf("-journal %w", err)
	}
	if err = store.CheckURL(o.valkey); err != nil {
		return o, fmt.Errorf("-valkey: %w", err)
	}
	if until != "" {
		if o.Until, err = time.Parse(time.RFC3339, until); err != nil {
			return o, fmt.Errorf("-until %s: must be a time such as 2026-11-22T14:03:00Z", until)
		}
	}
	if o.pepper, err = apikey.NewPepper(getenv("KEY_PEPPER")); err != nil {
		return o, errors.New("KEY_PEPPER: set it to that of the functions")
	}
	return o, nil
}

func restore(ctx context.Context, o options, out, errOut io.Writer) error {
	isS3 := strings.HasPrefix(o.journal, "s3://")
	if info, err := os.Stat(o.journal); err != nil && !isS3 || err == nil && !info.IsDir() {
		return fmt.Errorf("-journal %s: the folder does not exist", o.journal)
	}
	records, err := objects.Open(o.journal)
	if err != nil {
		return err
	}
	client, err := store.Open(ctx, o.valkey, store.Options{Dial: dialTimeout, Write: writeTimeout})
	if err != nil {
		return fmt.Errorf("-valkey: %w", err)
	}
	defer client.Close()
	keys := registry.NewStore(client, o.pepper)
	log := slog.New(slog.NewTextHandler(errOut, nil))
	j := journal.New(records, client, audit.NewKey(o.pepper), false, log)
	keys.Audit().UseJournal(j)
	began := time.Now()
	s, err := compareAndRestore(ctx, j, keys, o, out, errOut)
	switch {
	case err != nil && !errors.Is(err, journal.ErrNotRestored):
		return err
	case o.DryRun:
		_, _ = fmt.Fprintln(out, "Nothing was written: -dry-run.")
		return err
	}
	if s.Written > 0 {
		by := registry.Edit{By: audit.Actor{Kind: "system", Name: "restore"}}
		err = errors.Join(err, journal.Log(ctx, keys, by))
	}
	_, _ = fmt.Fprintf(out, "Restored %d of 256 parts in %s. Counts start empty.\n",
		s.Written, time.Since(began).Round(time.Millisecond))
	return err
}

// compareAndRestore first compares without writing and prints the result. It then
// restores, unless the comparison failed or -dry-run is set.
func compareAndRestore(
	ctx context.Context, j *journal.Journal, keys *registry.Store, o options, out, errOut io.Writer,
) (journal.Summary, error) {
	dry := o.Options
	dry.DryRun = true
	s, err := j.RestoreAll(ctx, keys, dry, nil, progress(errOut, "read"))
	_, _ = fmt.Fprintln(errOut)
	if errors.Is(err, audit.ErrItem) {
		return s, err
	}
	_, _ = fmt.Fprintf(out, "parts unchanged: %d, behind the journal: %d, with changes that the journal "+
		"lacks: %d, with other changes than the journal: %d\n",
		s.Found[journal.Same], s.Found[journal.Behind], s.Found[journal.Newer], s.Found[journal.Differs])
	_, _ = fmt.Fprintf(out, "changes lost by Valkey: %d; records to write: %d, to remove: %d\n", s.Lost,
		s.Records, s.Deleted)
	if o.DryRun || err != nil && !errors.Is(err, journal.ErrNotRestored) {
		return s, err
	}
	s, err = j.RestoreAll(ctx, keys, o.Options, nil, progress(errOut, "restored"))
	_, _ = fmt.Fprintln(errOut)
	return s, err
}

// progress writes the number of parts that are done, on one line.
func progress(errOut io.Writer, word string) func(journal.Summary) {
	parts := 0
	return func(journal.Summary) {
		parts++
		_, _ = fmt.Fprintf(errOut, "\r%s %d of 256 parts", word, parts)
	}
}
