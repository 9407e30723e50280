//go:build unix

// Command screenshots takes pictures of the dashboard's pages with sample data, for the
// README and the documents. Only the times in the data differ between runs.
package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"tidegate/internal/apikey"
	"tidegate/internal/objects"
	"tidegate/internal/registry"
	"tidegate/internal/store"
	"tidegate/local/site"
	"tidegate/local/valkey"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "screenshots:", err)
		os.Exit(1)
	}
}

const (
	output        = "docs/images"
	width, height = 1280, 860 // of the pages
	shotsTimeout  = 2 * time.Minute
)

// run starts a dashboard with the sample and takes every picture.
func run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shotsTimeout)
	defer cancel()
	server, err := valkey.Embedded()
	if err != nil {
		return err
	}
	defer server.Close()
	client, err := store.Open(ctx, server.URL,
		store.Options{Dial: 10 * time.Second, Write: 10 * time.Second, Pooled: true})
	if err != nil {
		return err
	}
	defer client.Close()
	folder, err := os.MkdirTemp("", "tidegate-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	log, err := objects.Open(folder)
	if err != nil {
		return err
	}
	keys := registry.New(client, log, apikey.Pepper(pepper))
	if err := keys.Start(ctx); err != nil {
		return err
	}
	handler, err := site.New(keys, client, apikey.Pepper(pepper))
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	h := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = h.Serve(listener) }() // until Close
	defer func() { _ = h.Close() }()
	s, err := newSample(ctx, client, keys)
	if err != nil {
		return err
	}
	return takeAll(ctx, "http://"+listener.Addr().String(), s)
}

// shots are the pages, each with the element to wait for.
func shots(s *sample) []shot {
	return []shot{
		{name: "overview", path: "/", ready: ".plot canvas"},
		{name: "key", path: "/keys/" + s.ids["Fjord Travel"], ready: ".plot canvas"},
		{name: "plan", path: "/policies/plans/2/edit", limit: "60 per 10 seconds", ready: "#preview-title",
			scroll: true},
		{name: "denials", path: "/denials", ready: "table.results"},
	}
}

// shot is a page and the element to wait for, and to scroll to. Where limit is set, it is
// the preview of a plan with this first limit.
type shot struct {
	name, path, limit, ready string
	scroll                   bool
}

func takeAll(ctx context.Context, base string, s *sample) error {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox,
		chromedp.Flag("hide-scrollbars", true))
	ctx, cancel := chromedp.NewExecAllocator(ctx, options...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	if err := chromedp.Do(ctx,
		chromedp.EmulateViewport(width, height), chromedp.Navigate(base+"/login"),
		chromedp.SendKeys(chromedp.CSS("[name=user]"), site.User),
		chromedp.SendKeys(chromedp.CSS("[name=password]"), site.Password),
		chromedp.Click(chromedp.CSS("main form button")), chromedp.WaitReady(chromedp.CSS("#live")),
	); err != nil {
		return fmt.Errorf("log in: %w", err)
	}
	if err := os.MkdirAll(output, 0o750); err != nil {
		return err
	}
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		return err
	}
	for _, p := range shots(s) {
		if err := p.take(ctx, base, filepath.Join(output, p.name+".png")); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

func (s shot) take(ctx context.Context, base, file string) error {
	if err := chromedp.Do(ctx, chromedp.Navigate(base+s.path)); err != nil {
		return err
	}
	if s.limit != "" {
		if err := chromedp.Do(ctx, chromedp.SetValue(chromedp.CSS("#limits"), s.limit),
			chromedp.Click(chromedp.CSS("#form .actions button[value=preview]"))); err != nil {
			return err
		}
	}
	if err := chromedp.Do(ctx, chromedp.WaitVisible(chromedp.CSS(s.ready))); err != nil {
		return err
	}
	if s.scroll {
		if err := chromedp.Do(ctx, chromedp.ScrollIntoView(chromedp.CSS(s.ready))); err != nil {
			return err
		}
	}
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		return err
	}
	small, err := quantised(picture)
	if err != nil {
		return err
	}
	fmt.Printf("%-40s %4d KB\n", file, len(small)/1000)
	return os.WriteFile(file, small, 0o600)
}

// quantised reduces the picture to its 256 most frequent colours. The pages have flat
// colours, so only the edges of letters lose any.
func quantised(picture []byte) ([]byte, error) {
	from, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return nil, err
	}
	counts := map[color.RGBA]int{}
	for y := from.Bounds().Min.Y; y < from.Bounds().Max.Y; y++ {
		for x := from.Bounds().Min.X; x < from.Bounds().Max.X; x++ {
			counts[color.RGBAModel.Convert(from.At(x, y)).(color.RGBA)]++ //nolint:forcetypeassert // the model's own type
		}
	}
	colours := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int {
		return cmp.Compare(counts[b], counts[a])
	})
	var palette color.Palette
	for _, c := range colours[:min(256, len(colours))] {
		palette = append(palette, c)
	}
	to := image.NewPaletted(from.Bounds(), palette)
	draw.Draw(to, to.Bounds(), from, from.Bounds().Min, draw.Src)
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	err = encoder.Encode(&out, to)
	return out.Bytes(), err
}
