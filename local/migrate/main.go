// Command migrate takes over API Gateway's usage plans with their keys. It prints what each
// limit and key becomes, writes the policy, and imports both through the JSON API of a
// deployment. ./scripts/migrate builds it and passes on its flags.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
)

// Exit statuses.
const (
	done = iota
	failedSome
	badUsage
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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
}

// run returns the exit status. It writes the table to out and the progress to errOut.
func run(
	ctx context.Context, args []string, getenv func(string) string, in io.Reader, out, errOut io.Writer,
) int {
	o, err := parse(args, getenv, out)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return done
	case err != nil:
		_, _ = fmt.Fprintf(errOut, "migrate: %v (-h shows all flags)\n", err)
		return badUsage
	}
	out, errOut = printable{out}, printable{errOut}
	if err := migrate(ctx, o, in, out, errOut); err != nil {
		_, _ = fmt.Fprintf(errOut, "migrate: %v\n", err)
		return failedSome
	}
	return done
}

func parse(args []string, getenv func(string) string, out io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("migrate", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&o.from, "from", "", "`folder` with an export of usage plans by the AWS CLI; - for a pipe")
	f.StringVar(&o.policyFile, "policy", "", "`file` to write the policy to, as YAML")
	f.StringVar(&o.dashboard, "dashboard", "",
		"`URL` of the dashboard; "+tokenVariable+" must have a machine token with scope write")
	f.BoolVar(&o.apply, "apply", false, "save the policy and import the keys; the default changes nothing")
	f.BoolVar(&o.shadow, "shadow", false, "plans count and deny nothing (mode shadow), to begin with")
	f.StringVar(&o.reissued, "reissued", "", "`file` for the new secrets of keys whose value cannot be kept")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			_, _ = io.WriteString(out, "Usage: ./scripts/migrate -from FOLDER [flags]\n\n")
			f.SetOutput(out)
			f.PrintDefaults()
		}
		return o, err
	}
	o.token = secret(getenv(tokenVariable))
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("argument %q is not a flag", clipped(f.Arg(0), 40))
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
	m := fromUsagePlans(export)
	if o.shadow {
		m.shadow()
	}
	m.print(out)
	if err := m.write(o.policyFile); err != nil {
		return err
	}
	if o.dashboard == "" {
		_, _ = fmt.Fprintln(out, "Nothing was changed. Set -dashboard to list the changes to its policy.")
		return nil
	}
	c := newClient(o.dashboard, o.token)
	merged, version, kept, err := c.mergedPolicy(ctx, m.policy)
	if err != nil {
		return fmt.Errorf("merge with the policy in force: %w", err)
	}
	for _, line := range kept {
		_, _ = fmt.Fprintln(out, line)
	}
	changes, err := c.savePolicy(ctx, merged, version, reason, !o.apply)
	if err != nil {
		return fmt.Errorf("save the policy: %w", err)
	}
	if changes == "" {
		changes = "none\n"
	}
	_, _ = fmt.Fprintf(out, "\nChanges to the policy in force:\n%s", changes)
	if !o.apply {
		_, _ = fmt.Fprintln(out, "Nothing was changed. Set -apply to save the policy and import the keys.")
		return nil
	}
	return m.importAll(ctx, c, o, out, errOut)
}

// shadow sets the plans that deny to mode shadow.
func (m *migration) shadow() {
	for i := range m.policy.Plans {
		if p := &m.policy.Plans[i]; p.Mode != policy.Off {
			p.Mode = policy.Shadow
		}
	}
}

func (m *migration) importAll(ctx context.Context, c *client, o options, out, errOut io.Writer) error {
	im := &importer{client: c, errOut: errOut}
	if o.reissued != "" {
		file, err := os.OpenFile(o.reissued, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
		if err != nil {
			return fmt.Errorf("-reissued: %w", err)
		}
		defer func() { _ = file.Close() }() // every line is synced when it is written
		im.reissued = file
	}
	began := time.Now()
	err := im.importKeys(ctx, m.keys)
	_, _ = fmt.Fprintf(out, "Imported %s keys in %s; %s already exist, %s failed.\n",
		policydoc.Number(im.created.Load()), time.Since(began).Round(time.Millisecond),
		policydoc.Number(im.existed.Load()), policydoc.Number(im.failed.Load()))
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

	taken   map[string]bool // names of plans
	numbers map[string]int  // by a name: the last number that planName added to it
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

// planName returns a unique name of a plan, of 1 to policy.MaxNameLen characters. An
// empty name becomes the id. A name that another plan has gets the id as a suffix, or a
// number where the id is too long or taken as well.
func (m *migration) planName(name, id string) string {
	if m.taken == nil {
		m.taken, m.numbers = map[string]bool{}, map[string]int{}
	}
	name = clipped(cmp.Or(strings.TrimSpace(name), id), policy.MaxNameLen)
	unique, suffix := name, " ("+clipped(id, policy.MaxNameLen)+")"
	if m.taken[unique] && utf8.RuneCountInString(suffix) <= policy.MaxNameLen/2 {
		unique = suffixed(name, suffix)
	}
	for m.taken[unique] {
		m.numbers[name] = max(m.numbers[name]+1, 2)
		unique = suffixed(name, fmt.Sprintf(" (%d)", m.numbers[name]))
	}
	m.taken[unique] = true
	return unique
}

// suffixed returns a name of at most policy.MaxNameLen characters that ends in suffix.
func suffixed(name, suffix string) string {
	return clipped(name, policy.MaxNameLen-utf8.RuneCountInString(suffix)) + suffix
}

// clipped returns text with single spaces, cut to a maximum number of characters. Bytes
// that are not UTF-8 become question marks, and characters that cannot be printed are
// escaped.
func clipped(text string, maxLen int) string {
	characters := []rune(escaped(strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "?"), ""))
	return string(characters[:min(len(characters), maxLen)])
}

// escaped returns text with \x1b for ESC, and likewise for other characters that cannot be
// printed, but those in kept.
func escaped(text, kept string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) || strings.ContainsRune(kept, r) {
			b.WriteRune(r)
		} else {
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}

// printable writes lines to a terminal. It escapes what controls one, which names of an
// export may have. Every Write must end between two characters.
type printable struct{ io.Writer }

// Write implements io.Writer.
func (p printable) Write(text []byte) (int, error) {
	if _, err := io.WriteString(p.Writer, escaped(string(text), "\n")); err != nil {
		return 0, err
	}
	return len(text), nil
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
	number := func(n int) string { return policydoc.Number(int64(n)) }
	_, _ = fmt.Fprintf(out, "\n%s plans, %s route rules, %s keys: %s with a new value, %s revoked. "+
		"%s lines without an equivalent.\n", number(len(m.policy.Plans)), number(len(m.policy.Routes)),
		number(len(m.keys)), number(reissued), number(revoked), number(m.lost))
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
