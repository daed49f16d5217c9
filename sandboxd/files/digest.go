package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"unicode/utf8"
)

// Absent is the digest of a file that is not there.
const Absent = "absent"

// Digest returns the SHA-256 of the file name as it is now, in hex, or Absent.
// text is its content where it is text of at most MaxFile.
func (w *Workspace) Digest(name string) (digest, text string, err error) {
	if err := w.checkPath(name); err != nil {
		return "", "", err
	}
	if _, err := w.root.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return Absent, "", nil
	}
	f, _, err := w.openRegular(name)
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	sum, head := sha256.New(), &bytes.Buffer{}
	if _, err := io.Copy(io.MultiWriter(sum, head), io.LimitReader(f, MaxFile+1)); err != nil {
		return "", "", explain(name, err)
	}
	if head.Len() <= MaxFile && utf8.Valid(head.Bytes()) {
		text = head.String()
	}
	if _, err := io.Copy(sum, f); err != nil {
		return "", "", explain(name, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), text, nil
}
