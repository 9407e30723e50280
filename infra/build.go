package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3assets"
	"github.com/aws/jsii-runtime-go"
)

// build builds the functions' zip files with ./scripts/build, once, when the CDK first
// needs one. cdk ls needs none.
type build struct {
	root string
	once sync.Once
	err  error
}

// findRoot returns the repository's folder.
func findRoot() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "scripts", "build")); err == nil {
			return folder, nil
		}
		above := filepath.Dir(folder)
		if above == folder {
			return "",
				errors.New("no scripts/build in this folder or above: run this inside Tidegate's repository")
		}
		folder = above
	}
}

// code returns a function's zip as an asset named after its own hash.
func (b *build) code(name string) awslambda.Code {
	return awslambda.Code_FromAsset(jsii.String(filepath.Join(b.root, "functions", name)),
		&awss3assets.AssetOptions{
			AssetHashType: awscdk.AssetHashType_OUTPUT,
			Bundling: &awscdk.BundlingOptions{
				Image:      awscdk.DockerImage_FromRegistry(jsii.String("unused")),
				Local:      &bundler{build: b, name: name},
				OutputType: awscdk.BundlingOutput_ARCHIVED,
			},
		})
}

func (b *build) run() error {
	b.once.Do(func() {
		command := exec.Command(filepath.Join(b.root, "scripts", "build"))
		command.Env = append(os.Environ(), "GOARCH=arm64")
		if output, err := command.CombinedOutput(); err != nil {
			b.err = fmt.Errorf("scripts/build: %w\n%s", err, output)
		}
	})
	return b.err
}

// bundler copies a function's zip to the CDK's folder.
type bundler struct {
	build *build
	name  string
}

// TryBundle copies the zip to outputDir. It always returns true, since bundling in a
// container would fail too. After an error the CDK finds an empty folder and ends the
// synthesis, and run reports the cause. TryBundle must not panic: the CDK would wait
// forever for its result.
func (b *bundler) TryBundle(outputDir *string, _ *awscdk.BundlingOptions) *bool {
	if err := b.bundle(*outputDir); err != nil {
		b.build.err = err
	}
	return jsii.Bool(true)
}

func (b *bundler) bundle(folder string) error {
	if err := b.build.run(); err != nil {
		return err
	}
	archive := b.name + ".zip"
	content, err := fs.ReadFile(os.DirFS(filepath.Join(b.build.root, "build")), archive)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, archive), content, 0o600)
}
