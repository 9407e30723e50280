// Command infra is the CDK app that provisions Tidegate: network, ElastiCache for Valkey, both functions, the dashboard's API, alarms, and example
// APIs that show how the authorizer is attached. cdk.json runs it; docs/deploy.md says how.
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

// silence of the notice that the CDK's own runtime prints on a Node.js release that still works but is near its end.
const silence = "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION"

func run(out io.Writer) error {
	if err := os.Setenv(silence, "20"); err != nil {
		return err
	}
	app := awscdk.NewApp(nil)
	flags, err := contextFlags(app)
	if err != nil {
		return err
	}
	props, err := flags.props()
	if err != nil {
		return err
	}
	root, err := findRoot()
	if err != nil {
		return err
	}
	build := &build{root: root}
	props.code = build.code
	stack := NewStack(app, props)
	if flags.nag {
		stack.inspect(app)
	}
	if err := synthesise(app, build); err != nil {
		return err
	}
	return stack.cost().Print(out)
}

// synthesise writes the cloud assembly. The CDK panics where it finds fault, with text for people.
func synthesise(app awscdk.App, b *build) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%v", fault)
		}
		if b.err != nil {
			err = b.err
		}
	}()
	app.Synth(nil)
	return nil
}
