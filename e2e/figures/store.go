package figures

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Run is what bench.json holds.
type Run struct {
	Machine string `json:"machine"` // one line: processors, kernel, memory
	Rows    []Row  `json:"rows"`
}

// Load reads bench.json of a folder; where there is none yet the run is empty.
func Load(dir string) (r Run, err error) {
	data, err := os.ReadFile(filepath.Join(dir, "bench.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	return r, err
}

// Added reads the rows that Add appended to a file.
func Added(name string) (rows []Row, err error) {
	data, err := os.ReadFile(name)
	for d := json.NewDecoder(bytes.NewReader(data)); err == nil; {
		var r Row
		if err = d.Decode(&r); err == nil {
			rows = append(rows, r)
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) {
		return rows, nil
	}
	return rows, err
}

// Files returns the contents of all files of a run by name: table, data, charts.
func (r Run) Files() (map[string]string, error) {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("bench.json: %w", err)
	}
	files := map[string]string{"bench.json": string(data) + "\n", "bench.md": Page(r.Rows, r.Machine)}
	for _, group := range Groups(r.Rows) {
		files[ChartName(group)] = Chart(group, Of(r.Rows, group))
	}
	return files, nil
}

// Save writes them into a folder.
func (r Run) Save(dir string) error {
	files, err := r.Files()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
