// Command infra is the CDK app that provisions Tidegate: network, ElastiCache for Valkey,
// both functions, the dashboard's API, alarms, and example APIs that show how the
// authorizer is attached. cdk.json runs it; see docs/deploy.md.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/aws/aws-cdk-go/awscdk/v2"
)

func main() {
	if err := run(os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "infra:", err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	root, err := findRoot()
	if err != nil {
		return err
	}
	build := &build{root: root}
	stack, err := synthesise(awscdk.NewApp(nil), build.code)
	if build.err != nil {
		return build.err // the CDK's own error only says that there was one
	}
	if err != nil || !build.made {
		return err
	}
	return stack.cost().Print(out, stack.alternatives()...)
}

// synthesise writes the cloud assembly for the context. The CDK panics with a readable
// text on errors.
func synthesise(app awscdk.App, code codeOf) (s *Stack, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%v", fault)
		}
	}()
	flags, err := contextFlags(app)
	if err != nil {
		return nil, err
	}
	props, err := flags.props()
	if err != nil {
		return nil, err
	}
	props.code = code
	s = NewStack(app, props)
	if flags.nag {
		s.inspect(app)
	}
	app.Synth(nil)
	return s, nil
}
