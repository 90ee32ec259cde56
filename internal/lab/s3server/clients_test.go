package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awscredentials "github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/pawl-dev/pawl/internal/lab/s3test"
	"github.com/pawl-dev/pawl/internal/load/s3"
)

const block = 4096

// A client gets and puts blocks.
type client struct {
	name     string
	get, put func() error
}

// BenchmarkClients compares what a request costs with clients of others, against a server that stores
// nothing, in a process of its own.
func BenchmarkClients(b *testing.B) {
	url := strings.TrimSuffix(s3test.Start(b, "-null").URL, "/bench")
	b.Cleanup(s3test.Remove)
	for _, c := range []client{pawl(b, url), bare(b, url), minioClient(b, url), awsClient(url)} {
		for call, f := range map[string]func() error{"get": c.get, "put": c.put} {
			b.Run(call+"/"+c.name, func(b *testing.B) {
				b.ReportAllocs()
				before := processor()
				for b.Loop() {
					if err := f(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64((processor()-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// processor returns the processor time of this process.
func processor() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail: the process exists
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func pawl(b *testing.B, url string) client {
	location, err := s3.ParseLocation(url + "/bench")
	if err != nil {
		b.Fatal(err)
	}
	own, err := s3.NewCredentials(id, secret, "")
	if err != nil {
		b.Fatal(err)
	}
	store, err := s3.NewStore(s3.Config{Location: location, Region: "us-east-1", Credentials: own, Timeout: time.Minute, PartSize: 16 << 20})
	if err != nil {
		b.Fatal(err)
	}
	c, buffer := store.Client(), make([]byte, block)
	return client{"pawl", func() error {
		_, err := c.Get("key", 0, block, block, buffer, nil)
		return err
	}, func() error {
		return c.Put("key", block, func(at int64, n int) []byte { return zeros[:n] })
	}}
}

// bare is net/http with the signer of Amazon's SDK, as a client of one's own would be written with them.
func bare(b *testing.B, url string) client {
	signer, transport, buffer := v4.NewSigner(), &http.Transport{DisableCompression: true}, make([]byte, block)
	b.Cleanup(transport.CloseIdleConnections)
	do := func(method string, body io.Reader, headers ...string) error {
		r, err := http.NewRequest(method, url+"/bench/key", body)
		if err != nil {
			return err
		}
		r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
		if err := signer.SignHTTP(context.Background(), aws.Credentials{AccessKeyID: id, SecretAccessKey: secret}, r, "UNSIGNED-PAYLOAD", "s3", "us-east-1", time.Now()); err != nil {
			return err
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		response, err := transport.RoundTrip(r)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode >= 300 {
			return fmt.Errorf("status %s", response.Status)
		}
		_, err = io.ReadFull(response.Body, buffer[:response.ContentLength])
		return err
	}
	return client{"net_http", func() error { return do("GET", nil, "Range", "bytes=0-4095") }, func() error { return do("PUT", bytes.NewReader(zeros[:block])) }}
}

func minioClient(b *testing.B, url string) client {
	c, err := minio.New(strings.TrimPrefix(url, "http://"), &minio.Options{Creds: credentials.NewStaticV4(id, secret, ""), Region: "us-east-1", BucketLookup: minio.BucketLookupPath})
	if err != nil {
		b.Fatal(err)
	}
	core, buffer, ctx := minio.Core{Client: c}, make([]byte, block), context.Background()
	return client{"minio-go", func() error {
		o := minio.GetObjectOptions{}
		if err := o.SetRange(0, block-1); err != nil {
			return err
		}
		r, _, _, err := core.GetObject(ctx, "bench", "key", o)
		if err != nil {
			return err
		}
		defer r.Close()
		_, err = io.ReadFull(r, buffer)
		return err
	}, func() error {
		_, err := core.PutObject(ctx, "bench", "key", bytes.NewReader(zeros[:block]), block, "", "", minio.PutObjectOptions{DisableContentSha256: true})
		return err
	}}
}

func awsClient(url string) client {
	c := awss3.New(awss3.Options{
		BaseEndpoint: aws.String(url), Region: "us-east-1", UsePathStyle: true, Credentials: awscredentials.NewStaticCredentialsProvider(id, secret, ""),
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired, ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
	})
	buffer, ctx := make([]byte, block), context.Background()
	return client{"aws-sdk-go-v2", func() error {
		r, err := c.GetObject(ctx, &awss3.GetObjectInput{Bucket: aws.String("bench"), Key: aws.String("key"), Range: aws.String("bytes=0-4095")})
		if err != nil {
			return err
		}
		defer r.Body.Close()
		_, err = io.ReadFull(r.Body, buffer)
		return err
	}, func() error {
		_, err := c.PutObject(ctx, &awss3.PutObjectInput{Bucket: aws.String("bench"), Key: aws.String("key"), Body: bytes.NewReader(zeros[:block])}, awss3.WithAPIOptions(v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware))
		return err
	}}
}
