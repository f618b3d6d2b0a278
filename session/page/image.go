package page

import (
	"encoding/base64"
	"html/template"
	"strings"

	"pistore/session"
)

// imageKinds are the images that a page shows, by how their bytes begin. SVG is
// none of them: it is a document, which may hold scripts.
var imageKinds = map[string]string{
	"image/png": "\x89PNG\r\n\x1a\n", "image/jpeg": "\xff\xd8\xff", "image/gif": "GIF8", "image/webp": "RIFF",
}

// imageView is an image, or the words that stand for it.
type imageView struct {
	URL   template.URL // empty: not shown
	Words string
}

// image shows an image if it is of a kind that is safe, is what it says, and
// there is room for it.
func (w *writer) image(b session.Image) imageView {
	v := imageView{Words: "Image, " + oneLine(firstOf(b.MIMEType, "of no kind"), 40) + ", " + sizeWords(int64(len(b.Data))*3/4)}
	begins, ok := imageKinds[b.MIMEType]
	switch {
	case !ok:
		v.Words += ": not shown, for its kind"
		return v
	case len(b.Data) > w.doc.limits.ImageBytes, len(b.Data) > w.images:
		v.Words += ": not shown, for its size"
		return v
	}
	raw, err := base64.StdEncoding.DecodeString(b.Data)
	if err != nil || !strings.HasPrefix(string(raw[:min(len(raw), 16)]), begins) {
		v.Words += ": not shown, for it is none"
		return v
	}
	w.images -= len(b.Data)
	v.URL = template.URL("data:" + b.MIMEType + ";base64," + base64.StdEncoding.EncodeToString(raw))
	return v
}
