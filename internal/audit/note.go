package audit

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Keys and checkpoints have the text forms of C2SP signed notes
// (https://c2sp.org/signed-note), algorithm 1, Ed25519, so that
// golang.org/x/mod/sumdb/note and others can check them.
const algEd25519 = 1

// keyFormHint says how keys look, for errors.
const keyFormHint = "it must be one line, NAME+HASH+KEY in the form of a signed note's key"

// A signer holds the private key of one chain.
type signer struct {
	name string // sallyport-audit/ and 16 hex digits, unique for each chain
	key  ed25519.PrivateKey
}

func newSigner() (signer, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return signer{}, fmt.Errorf("audit key: %w", err)
	}
	id := sha256.Sum256(key.Public().(ed25519.PublicKey))
	return signer{"sallyport-audit/" + hex.EncodeToString(id[:8]), key}, nil
}

func keyHash(name string, pub ed25519.PublicKey) uint32 {
	sum := sha256.Sum256(append(append([]byte(name), '\n', algEd25519), pub...))
	return binary.BigEndian.Uint32(sum[:4])
}

func (s signer) public() PublicKey {
	return PublicKey{s.name, s.key.Public().(ed25519.PublicKey)}
}

// secret is the line of FILE.key.
func (s signer) secret() string {
	return fmt.Sprintf("PRIVATE+KEY+%s+%08x+%s\n", s.name, keyHash(s.name, s.public().key),
		base64.StdEncoding.EncodeToString(append([]byte{algEd25519}, s.key.Seed()...)))
}

func parseSigner(text string) (signer, error) {
	rest, ok := strings.CutPrefix(strings.TrimSuffix(text, "\n"), "PRIVATE+KEY+")
	name, sum, key, err := splitKey(rest, ed25519.SeedSize)
	if !ok || err != nil {
		return signer{}, errors.New("the private key is malformed")
	}
	s := signer{name, ed25519.NewKeyFromSeed(key)}
	if sum != keyHash(name, s.public().key) {
		return signer{}, errors.New("the private key is malformed")
	}
	return s, nil
}

// argumentsKey is the key of arguments_hmac, derived so that there is one
// secret for each chain.
func (s signer) argumentsKey() []byte {
	mac := hmac.New(sha256.New, s.key.Seed())
	mac.Write([]byte("sallyport audit arguments"))
	return mac.Sum(nil)
}

func splitKey(text string, size int) (name string, sum uint32, key []byte, err error) {
	parts := strings.SplitN(text, "+", 3) // Base64 has a plus too
	if len(parts) != 3 || parts[0] == "" {
		return "", 0, nil, errors.New(keyFormHint)
	}
	n, err := strconv.ParseUint(parts[1], 16, 32)
	raw, err2 := base64.StdEncoding.DecodeString(parts[2])
	if err != nil || err2 != nil || len(raw) != size+1 || raw[0] != algEd25519 {
		return "", 0, nil, errors.New(keyFormHint)
	}
	return parts[0], uint32(n), raw[1:], nil
}

// A PublicKey checks the checkpoints of one chain.
type PublicKey struct {
	Name string
	key  ed25519.PublicKey
}

// String is the line of FILE.pub, without its newline.
func (k PublicKey) String() string {
	return fmt.Sprintf("%s+%08x+%s", k.Name, keyHash(k.Name, k.key),
		base64.StdEncoding.EncodeToString(append([]byte{algEd25519}, k.key...)))
}

// ParsePublicKey reads the line of FILE.pub.
func ParsePublicKey(text string) (PublicKey, error) {
	name, sum, key, err := splitKey(strings.TrimSpace(text), ed25519.PublicKeySize)
	if err != nil || sum != keyHash(name, key) {
		return PublicKey{}, fmt.Errorf("public key: %s", keyFormHint)
	}
	return PublicKey{name, key}, nil
}

// A Checkpoint says that record Seq has the hash Head, at Time.
type Checkpoint struct {
	Seq  uint64
	Head hash
	Time time.Time
}

// sign returns the signed note of c. Its text has the three lines of a
// checkpoint (origin, count, head) and the time; the head is that of a hash
// chain, not of a tree.
func (s signer) sign(c Checkpoint) string {
	text := fmt.Sprintf("%s\n%d\n%s\n%s\n", s.name, c.Seq, base64.StdEncoding.EncodeToString(c.Head[:]),
		c.Time.UTC().Format(time.RFC3339))
	sig := binary.BigEndian.AppendUint32(nil, keyHash(s.name, s.public().key))
	sig = append(sig, ed25519.Sign(s.key, []byte(text))...)
	return text + "\n\u2014 " + s.name + " " + base64.StdEncoding.EncodeToString(sig) + "\n"
}

// Open checks a signed note and returns its checkpoint.
func (k PublicKey) Open(note string) (Checkpoint, error) {
	text, sigs, ok := strings.Cut(note, "\n\n")
	text += "\n"
	lines := strings.Split(text, "\n")
	if !ok || len(lines) < 5 || lines[0] != k.Name {
		return Checkpoint{}, errors.New("this is no checkpoint of the key " + k.Name)
	}
	if !k.signed(text, sigs) {
		return Checkpoint{}, errors.New("the signature does not fit")
	}
	var c Checkpoint
	seq, err := strconv.ParseUint(lines[1], 10, 64)
	head, err2 := base64.StdEncoding.DecodeString(lines[2])
	at, err3 := time.Parse(time.RFC3339, lines[3])
	if err != nil || err2 != nil || err3 != nil || len(head) != len(c.Head) {
		return Checkpoint{}, errors.New("the checkpoint's text is malformed")
	}
	return Checkpoint{seq, hash(head), at}, nil
}

func (k PublicKey) signed(text, sigs string) bool {
	for line := range strings.SplitSeq(sigs, "\n") {
		encoded, ok := strings.CutPrefix(line, "\u2014 "+k.Name+" ")
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil || len(raw) != 4+ed25519.SignatureSize ||
			binary.BigEndian.Uint32(raw) != keyHash(k.Name, k.key) {
			continue
		}
		if ed25519.Verify(k.key, []byte(text), raw[4:]) {
			return true
		}
	}
	return false
}

// splitNotes splits concatenated notes, each followed by an empty line. What
// is left over at the end is an unfinished note.
func splitNotes(text string) (notes []string, rest string) {
	for {
		head, tail, ok := strings.Cut(text, "\n\n")
		sigs, after, ok2 := strings.Cut(tail, "\n\n")
		if !ok || !ok2 {
			return notes, text
		}
		notes = append(notes, head+"\n\n"+sigs+"\n")
		text = after
	}
}
