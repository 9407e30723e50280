package s3test_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"tidegate/internal/testing/s3test"
)

func clientOf(server *s3test.Server, secret string) *s3.Client {
	return s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: &server.URL, UsePathStyle: true, HTTPClient: server.Client(),
		RetryMaxAttempts: 1, RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported,
		Credentials: aws.CredentialsProviderFunc(
			func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{AccessKeyID: "tester", SecretAccessKey: secret}, nil
			})})
}

// codeOf returns S3's code of an error, or "" without an error.
func codeOf(err error) string {
	if known, ok := errors.AsType[smithy.APIError](err); ok {
		return known.ErrorCode()
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// The server answers the SDK by AWS's rules of conditional requests.
func TestConditions(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *s3test.Server{"plain": s3test.Start,
		"tls": s3test.StartTLS} {
		t.Run(name, func(t *testing.T) {
			server := start(t)
			client, bucket := clientOf(server, "tester-secret"), aws.String(s3test.Bucket)
			put := func(key, match, none string) (*s3.PutObjectOutput, string) {
				in := &s3.PutObjectInput{Bucket: bucket, Key: &key, Body: strings.NewReader(match + none)}
				if match != "" {
					in.IfMatch = &match
				}
				if none != "" {
					in.IfNoneMatch = &none
				}
				out, err := client.PutObject(t.Context(), in)
				return out, codeOf(err)
			}
			made, code := put("a", "", "*")
			if code != "" {
				t.Fatal(code)
			}
			for _, c := range []struct{ key, match, none, want string }{
				{"a", "", "*", "PreconditionFailed"}, {"b", `"0"`, "", "NoSuchKey"},
				{"a", `"0"`, "", "PreconditionFailed"}, {"b", "", `"0"`, "NotImplemented"},
				{"a", *made.ETag, "", ""}, {"a", *made.ETag, "", "PreconditionFailed"},
				{strings.Repeat("k", 1025), "", "", "KeyTooLongError"},
			} {
				if _, got := put(c.key, c.match, c.none); got != c.want {
					t.Errorf("put %.9s, If-Match %s, If-None-Match %s: got %q, want %q", c.key, c.match,
						c.none, got, c.want)
				}
			}
			part, err := client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: bucket,
				Key: aws.String("a"), Range: aws.String("bytes=1-3"), ChecksumMode: "ENABLED"})
			if err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(part.Body); err != nil || string(text) != (*made.ETag)[1:4] {
				t.Errorf("got %s, %v, want %s", text, err, (*made.ETag)[1:4])
			}
			_, err = client.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: bucket,
				Key: aws.String("a"), IfMatch: made.ETag})
			if codeOf(err) != "PreconditionFailed" {
				t.Errorf("delete of another version: got %v", err)
			}
			_, err = clientOf(server, "another").GetObject(t.Context(),
				&s3.GetObjectInput{Bucket: bucket, Key: aws.String("a")})
			if codeOf(err) != "SignatureDoesNotMatch" {
				t.Errorf("another secret: got %v", err)
			}
		})
	}
}

// Lists are in binary order, in pages of 1,000 names, and group names by a delimiter.
func TestLists(t *testing.T) {
	server := s3test.Start(t)
	client, bucket := clientOf(server, "tester-secret"), aws.String(s3test.Bucket)
	var names []string
	for i := range 1005 {
		names = append(names, fmt.Sprintf("log/%04d é", i))
	}
	for _, name := range append(names, "log/a/1", "log/a/2", "other") {
		_, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: bucket, Key: &name})
		if err != nil {
			t.Fatal(err)
		}
	}
	list := func(in s3.ListObjectsV2Input) (sizes []int, found []string) {
		in.Bucket = bucket
		pages := s3.NewListObjectsV2Paginator(client, &in)
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, int(*page.KeyCount))
			for _, o := range page.Contents {
				found = append(found, *o.Key)
			}
			for _, p := range page.CommonPrefixes {
				found = append(found, *p.Prefix)
			}
		}
		return sizes, found
	}
	prefix := aws.String("log/")
	if sizes, found := list(s3.ListObjectsV2Input{Prefix: prefix, Delimiter: aws.String("/")}); !slices.Equal(
		sizes, []int{1000, 6}) || !slices.Equal(found, append(slices.Clone(names), "log/a/")) {
		t.Errorf("got pages of %d with %d names, want 1000 and 6", sizes, len(found))
	}
	if sizes, found := list(s3.ListObjectsV2Input{Prefix: prefix, StartAfter: &names[1003],
		MaxKeys: aws.Int32(2)}); !slices.Equal(sizes, []int{2, 1}) ||
		!slices.Equal(found, []string{names[1004], "log/a/1", "log/a/2"}) {
		t.Errorf("got %q in pages of %d", found, sizes)
	}
}
