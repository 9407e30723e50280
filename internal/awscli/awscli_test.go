package awscli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// version1 answers as version 1 of the AWS CLI does: it knows no option of version 2, and
// prints its usage before an error.
const version1 = `#!/bin/sh
usage() { printf 'usage: aws [options] <command>\n%0300d\n\n%s\n\n' 0 "$1" >&2; exit 252; }
case " $* " in *" --no-cli-pager "*|*" --cli-binary-format "*) usage "Unknown options: $*" ;; esac
[ "$1" = sts ] && usage 'no such profile'
echo "\"$AWS_PAGER$*\""
`

// A command asks for JSON without a pager, in a way that both versions know. Its error
// has the line that says what is wrong.
func TestVersion1(t *testing.T) {
	file := filepath.Join(t.TempDir(), "aws")
	if err := os.WriteFile(file, []byte(version1), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(file)+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("AWS_PAGER", "less")
	aws, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	out, err := aws(t.Context(), "logs", "describe-log-groups")
	if want := `"logs describe-log-groups --output json"`; err != nil ||
		strings.TrimSpace(string(out)) != want {
		t.Errorf("got %s, %v, want %s", out, err, want)
	}
	_, err = aws(t.Context(), "sts", "get-caller-identity")
	if want := "aws sts get-caller-identity: exit status 252: no such profile"; err == nil ||
		err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Find(); err == nil {
		t.Error("got no error on an empty PATH")
	}
}
