package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
)

const (
	s3Scheme = "s3://"
	// s3Attempts is the number of attempts of one request. If the first attempt of a
	// conditional put succeeded, the second is refused: the caller compares the contents.
	s3Attempts = 3
	// s3Dial bounds connecting to S3, which a gateway endpoint routes inside the VPC.
	s3Dial = time.Second
	// s3MaxObject bounds a read, in bytes. At a million keys, a bucket's checkpoint has
	// 2 MB.
	s3MaxObject = 256 << 20
)

// s3Address is a parsed address of a bucket.
type s3Address struct{ bucket, prefix, region, endpoint string }

func parseS3(address string) (s3Address, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil {
		return s3Address{}, errors.New("must be s3://BUCKET[/PREFIX], without a user")
	}
	a := s3Address{bucket: u.Host, prefix: strings.Trim(u.Path, "/"), region: os.Getenv("AWS_REGION")}
	for name, values := range u.Query() {
		switch name {
		case "region":
			a.region = values[0]
		case "endpoint":
			a.endpoint = values[0]
		default:
			return s3Address{}, fmt.Errorf("has an unknown parameter %q: use region or endpoint", name)
		}
	}
	if a.region == "" {
		return s3Address{}, errors.New("needs a region: set AWS_REGION or add ?region=REGION")
	}
	if a.prefix != "" {
		a.prefix += "/"
	}
	return a, nil
}

// bucket is a Store in S3.
type bucket struct {
	client *s3.Client
	s3Address
}

func openS3(address string) (bucket, error) {
	a, err := parseS3(address)
	if err != nil {
		return bucket{}, fmt.Errorf("objects: the address %w", err)
	}
	return newBucket(a, &http.Transport{
		DialContext:     (&net.Dialer{Timeout: s3Dial}).DialContext,
		MaxIdleConns:    64,
		IdleConnTimeout: 20 * time.Second, // S3 closes idle connections
		MaxConnsPerHost: 64, MaxIdleConnsPerHost: 64,
		ForceAttemptHTTP2: false,
	}), nil
}

// newBucket returns the store at an address. Every put has a checksum, since S3 refuses
// one without in a bucket with Object Lock.
func newBucket(a s3Address, transport http.RoundTripper) bucket {
	options := s3.Options{
		Region: a.region, Credentials: aws.CredentialsProviderFunc(credentials),
		HTTPClient: &http.Client{Transport: transport}, RetryMaxAttempts: s3Attempts,
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported,
		APIOptions:                 []func(*middleware.Stack) error{checkTime},
	}
	if a.endpoint != "" {
		options.BaseEndpoint, options.UsePathStyle = aws.String(a.endpoint), true
	}
	return bucket{s3.New(options), a}
}

// checkTime makes each attempt of a request ask the wall clock.
func checkTime(stack *middleware.Stack) error {
	return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("InTime",
		func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler,
		) (middleware.FinalizeOutput, middleware.Metadata, error) {
			if err := inTime(ctx); err != nil {
				return middleware.FinalizeOutput{}, middleware.Metadata{}, finalError{err}
			}
			return next.HandleFinalize(ctx, in)
		}), "Retry", middleware.After)
}

// finalError is an error after which the SDK does not try again.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// RetryableError implements an interface of the SDK.
func (finalError) RetryableError() bool { return false }

// credentials returns the credentials that Lambda sets in the environment.
func credentials(context.Context) (aws.Credentials, error) {
	c := aws.Credentials{
		AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"),
		SessionToken: os.Getenv("AWS_SESSION_TOKEN"), Source: "environment",
	}
	if !c.HasKeys() {
		return aws.Credentials{}, errors.New("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not both set")
	}
	return c, nil
}

// Create implements Store.
func (b bucket) Create(ctx context.Context, name string, content []byte) error {
	return b.put(ctx, name, content, nil)
}

// Replace implements Store.
func (b bucket) Replace(ctx context.Context, name string, content []byte, keep func([]byte) bool) error {
	for {
		stored, tag, err := b.get(ctx, name)
		switch {
		case errors.Is(err, ErrNotFound):
			tag = nil
		case err != nil:
			return err
		case keep(stored):
			return nil
		}
		if err = b.put(ctx, name, content, tag); !errors.Is(err, ErrExists) || ctx.Err() != nil {
			return err
		}
	}
}

// put stores an object in place of the one with an entity tag, or of none if tag is nil.
// It fails with ErrExists if there is another one. S3 answers 409 to one of two concurrent
// conditional puts, which put then tries again.
func (b bucket) put(ctx context.Context, name string, content []byte, tag *string) error {
	in := &s3.PutObjectInput{Bucket: &b.bucket, Key: aws.String(b.prefix + name), IfMatch: tag}
	if tag == nil {
		in.IfNoneMatch = aws.String("*")
	}
	for {
		in.Body = bytes.NewReader(content)
		_, err := b.client.PutObject(ctx, in)
		switch code(err) {
		case "ConditionalRequestConflict":
			if ctx.Err() == nil {
				continue
			}
		case "PreconditionFailed", "NoSuchKey": // the latter if the tagged object was deleted
			return ErrExists
		}
		if err != nil {
			return fmt.Errorf("objects: put: %w", err)
		}
		return nil
	}
}

// Read implements Store.
func (b bucket) Read(ctx context.Context, name string) ([]byte, error) {
	content, _, err := b.get(ctx, name)
	return content, err
}

// get returns an object and its entity tag.
func (b bucket) get(ctx context.Context, name string) (content []byte, tag *string, err error) {
	object, err := b.client.GetObject(ctx,
		&s3.GetObjectInput{Bucket: &b.bucket, Key: aws.String(b.prefix + name)})
	if code(err) == "NoSuchKey" {
		return nil, nil, ErrNotFound
	}
	if err != nil {
		return nil, nil, fmt.Errorf("objects: get: %w", err)
	}
	defer func() { _ = object.Body.Close() }()
	if content, err = io.ReadAll(io.LimitReader(object.Body, s3MaxObject)); err != nil {
		return nil, nil, fmt.Errorf("objects: get: %w", err)
	}
	if object.ETag == nil { // S3 always sends it
		return nil, nil, errors.New("objects: get: the answer has no ETag")
	}
	return content, object.ETag, nil
}

// List implements Store.
func (b bucket) List(ctx context.Context, prefix, after string) ([]Object, error) {
	in := &s3.ListObjectsV2Input{Bucket: &b.bucket, Prefix: aws.String(b.prefix + prefix)}
	if after != "" {
		in.StartAfter = aws.String(b.prefix + after)
	}
	var found []Object
	for pages := s3.NewListObjectsV2Paginator(b.client, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("objects: list: %w", err)
		}
		for _, o := range page.Contents {
			found = append(found, Object{strings.TrimPrefix(aws.ToString(o.Key), b.prefix),
				aws.ToInt64(o.Size), aws.ToTime(o.LastModified)})
		}
	}
	return found, nil
}

// code returns S3's code of an error; empty if the error is not from S3.
func code(err error) string {
	if known, ok := errors.AsType[smithy.APIError](err); ok {
		return known.ErrorCode()
	}
	return ""
}
