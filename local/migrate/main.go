// Package migrate is the command that takes over API Gateway's usage plans with their
// keys. It prints what each limit and key becomes, writes the policy, and imports both
// through the JSON API of a deployment.
package migrate

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/local/cli"
)

// Exit statuses.
const (
	done = iota
	failedSome
)

// tokenVariable is the environment variable with the machine token. A flag would show the
// token to other users of the machine.
const tokenVariable = "MIGRATE_TOKEN"

// isURL matches addresses to which a token may be sent: https, or http on this machine.
var isURL = regexp.MustCompile(`^(https://[^/]|http://(127\.0\.0\.1|localhost|\[::1\])(:|/|$))`)

type options struct {
	from       string
	policyFile string
	reissued   string
	dashboard  string
	token      secret
	apply      bool
	shadow     bool
}

const about = `Imports API Gateway's usage plans and keys. Prints a table with what happens to every
plan, limit and key, writes the policy as YAML, and imports policy and keys into a
deployment or into scripts/run. Changes nothing without -apply. Run the same command
again to continue an interrupted import. docs/migrate.md has the steps.

  migrate -from FOLDER|FILE [flags]

MIGRATE_TOKEN in the environment is a machine token of scope write, for -dashboard. Exit
status: 0 when everything was imported, 1 when something was not, 2 for bad usage.
`

// Run runs the command and returns its exit status. It writes the table to out and the
// progress to errOut.
func Run(ctx context.Context, args []string, getenv func(string) string, in io.Reader,
	out, errOut io.Writer) int {
	o, err := parse(args, getenv, out)
	if err != nil {
		return cli.Refuse("migrate", err, errOut)
	}
	out, errOut = printable{out}, printable{errOut}
	if err := migrate(ctx, o, in, out, errOut); err != nil {
		_, _ = fmt.Fprintf(errOut, "migrate: %v\n", err)
		return failedSome
	}
	return done
}

func (o *options) flags() *flag.FlagSet {
	f := flag.NewFlagSet("migrate", flag.ContinueOnError)
	f.StringVar(&o.from, "from", "",
		"`folder or file` with the output of aws apigateway get-usage-plans,\n"+
			"get-usage-plan-keys and get-api-keys --include-values, as .json\n"+
			"or .yaml files, or a .csv file of import-api-keys; - reads JSON\n"+
			"or YAML from standard input")
	f.StringVar(&o.policyFile, "policy", "", "write the resulting policy to this `file` as YAML")
	f.StringVar(&o.dashboard, "dashboard", "",
		"`URL` of the dashboard: list the changes to the current policy")
	f.BoolVar(&o.apply, "apply", false, "save the policy and import the keys")
	f.BoolVar(&o.shadow, "shadow", false, "let new plans only count: their limits deny nothing")
	f.StringVar(&o.reissued, "reissued", "",
		"write the new secrets of keys whose value cannot be kept to this\n"+
			"`file`; without it those keys are skipped")
	return f
}

func parse(args []string, getenv func(string) string, out io.Writer) (options, error) {
	var o options
	if err := cli.Parse(o.flags(), args, about, out); err != nil {
		return o, err
	}
	o.token = secret(getenv(tokenVariable))
	switch {
	case o.from == "":
		return o, errors.New("-from is required: the folder with the export, or - for a pipe")
	case o.apply && o.dashboard == "":
		return o, errors.New("-apply needs -dashboard")
	case o.dashboard != "" && !isURL.MatchString(o.dashboard):
		return o, errors.New("-dashboard must be an https URL such as https://limits.example.com")
	case o.dashboard != "" && o.token == "":
		return o, errors.New("-dashboard needs a machine token with scope write in " + tokenVariable)
	}
	return o, nil
}

func migrate(ctx context.Context, o options, in io.Reader, out, errOut io.Writer) error {
	export, err := readExport(o.from, in)
	if err != nil {
		return fmt.Errorf("-from %w", err)
	}
	m := fromUsagePlans(export, o.shadow)
	m.print(out)
	if err := m.write(o.policyFile); err != nil {
		return err
	}
	if o.dashboard == "" {
		_, _ = fmt.Fprintln(out, "Nothing was changed. Set -dashboard to list the changes to its policy.")
		return nil
	}
	if list := export.unlisted(); o.apply && len(list) > 0 && len(export.keys) > 0 {
		return fmt.Errorf("nothing was changed: the export has no list of the keys of %s plans, such as %s; "+
			"export them as the table says", limits.Number(int64(len(list))), list[0])
	}
	im := &importer{client: newClient(o.dashboard, o.token), errOut: errOut}
	if o.reissued != "" && o.apply {
		file, err := os.OpenFile(o.reissued, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
		if err != nil {
			return fmt.Errorf("-reissued: %w", err)
		}
		defer func() { _ = file.Close() }() // every line is synced when it is written
		im.reissued = file
	}
	if err := m.savePolicy(ctx, im.client, o.apply, out); err != nil {
		return err
	}
	if !o.apply {
		_, _ = fmt.Fprintln(out, "Nothing was changed. Set -apply to save the policy and import the keys.")
		reissued := slices.ContainsFunc(m.keys, func(k importedKey) bool { return k.value == "" })
		if o.reissued == "" && reissued {
			_, _ = fmt.Fprintln(out, "Set -reissued too: without it, keys with a new value are left out.")
		}
		return nil
	}
	return m.importAll(ctx, im, out)
}

// savePolicy adds the plans that the policy in force lacks, and prints what that
// changes. Without apply the API only validates the policy.
func (m *migration) savePolicy(ctx context.Context, c *client, apply bool, out io.Writer) error {
	merged, version, err := c.policy(ctx)
	if err != nil {
		return fmt.Errorf("read the policy: %w", err)
	}
	added, kept, err := merge(&merged, m.policy)
	if len(kept) > 0 {
		_, _ = fmt.Fprintf(out, "\nExisting plans that stay as they are:\n%s\n",
			strings.Join(kept, "\n"))
	}
	if err != nil {
		return err
	}
	changes := "none\n"
	if added > 0 {
		if changes, err = c.savePolicy(ctx, merged, version, reason, !apply); err != nil {
			return fmt.Errorf("save the policy: %w", err)
		}
	}
	_, _ = fmt.Fprintf(out, "\nChanges to the policy in force:\n%s", changes)
	return nil
}

func (m *migration) importAll(ctx context.Context, im *importer, out io.Writer) error {
	began := time.Now()
	err := im.importKeys(ctx, m.keys)
	_, _ = fmt.Fprintf(out, "Imported %s keys in %s; %s already exist, %s failed.\n",
		limits.Number(im.created.Load()), time.Since(began).Round(time.Millisecond),
		limits.Number(im.existed.Load()), limits.Number(im.failed.Load()))
	for _, f := range im.failures {
		_, _ = fmt.Fprintln(out, "  "+f)
	}
	if err == nil && im.failed.Load() > 0 {
		return errors.New("some keys were not imported; run the same command again to continue")
	}
	return err
}

// migration is the result of converting an export.
type migration struct {
	policy policydoc.Policy
	rows   []row // in the order of the table
	keys   []importedKey
	lost   int // number of rows without an equivalent

	shadow  bool            // limits are in shadow
	taken   map[string]bool // names of plans
	numbers map[string]int  // by a name: how many numbers unique has tried
}

// row is a line of the table: an item of the source, and its equivalent in Tidegate.
type row struct{ source, becomes string }

// noEquivalent is the prefix of row.becomes if Tidegate has no equivalent.
const noEquivalent = "no equivalent: "

// maxSource bounds the source of a row, in characters: the table pads all to the longest.
const maxSource = 160

// add adds a row of one line. becomes is a format for args.
func (m *migration) add(source, becomes string, args ...any) {
	characters := []rune(escaped(source, ""))
	if len(characters) > maxSource {
		characters = append(characters[:maxSource-1], '…')
	}
	m.rows = append(m.rows, row{string(characters), escaped(fmt.Sprintf(becomes, args...), "")})
	if strings.HasPrefix(becomes, noEquivalent) {
		m.lost++
	}
}

// print writes the table and its totals.
func (m *migration) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "SOURCE\tBECOMES")
	revoked, reissued := 0, 0
	for _, r := range m.rows {
		_, _ = fmt.Fprintf(w, "%s\t%s\n", r.source, r.becomes)
	}
	for _, k := range m.keys {
		if k.revoked {
			revoked++
		}
		if k.value == "" {
			reissued++
		}
	}
	_ = w.Flush() // an error of the program's own output cannot be reported
	number := func(n int) string { return limits.Number(int64(n)) }
	_, _ = fmt.Fprintf(out, "\n%s plans, %s keys: %s with a new value, %s revoked. "+
		"%s lines without an equivalent.\n", number(len(m.policy.Plans)), number(len(m.keys)),
		number(reissued), number(revoked), number(m.lost))
	if m.shadow {
		_, _ = fmt.Fprintln(out, "The limits of new plans are in shadow: they deny nothing.")
	}
}

// write validates the policy. It writes the policy to a file, unless file is empty.
func (m *migration) write(file string) error {
	set, fieldErrors := m.policy.Set(&policy.Set{})
	if err := errors.Join(policy.Invalid(fieldErrors), set.Validate()); err != nil {
		return fmt.Errorf("the resulting policy is invalid: %w", err)
	}
	if file == "" {
		return nil
	}
	text, err := policydoc.Write(&set)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}
