"""The lists of the package agree with each other: functions, gufuncs, fallbacks, stub, documentation,
adapters. Its modules import each other in no circle."""

import ast
import inspect
import pickle
import re
import sys
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest
from pages import ROOT

import smallmm
import smallmm._core as core
from smallmm import cuda, numa, testing
from smallmm._base import lapack
from smallmm._base.catalog import COMPOSITIONS, FUNCTIONS
from smallmm._base.shapes import PRODUCTS
from smallmm._libraries import LIBRARIES, library_of

sys.path.append(str(ROOT / "tools"))
import layout

PACKAGE = Path(smallmm.__file__).parent
for later in smallmm.__all__:
    getattr(smallmm, later)  # enters those that are imported when first asked for
GUFUNCS = {name for name, x in vars(core).items() if isinstance(x, np.ufunc)}


def test_every_gufunc_has_a_row_and_a_direct_way():
    assert core.gufunc_rows.keys() == core.direct.keys() == GUFUNCS
    forms = sum(core.forms.values())
    assert all(0 <= form <= forms for _, form in core.gufunc_rows.values())


def test_every_gufunc_computes_a_public_function():
    assert {gufunc for row in FUNCTIONS.values() for gufunc in row.gufuncs} == GUFUNCS


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions_are_public(name):
    assert name in smallmm.__all__
    assert getattr(smallmm, name) is FUNCTIONS[name].function


def test_compositions_are_public_and_have_no_gufunc():
    assert not COMPOSITIONS.keys() & FUNCTIONS.keys()
    assert all(getattr(smallmm, name) is function for name, function in COMPOSITIONS.items())
    assert COMPOSITIONS.keys() < set(smallmm.__all__)


SECTIONS = ("Parameters", "Returns", "Raises", "See Also", "Notes", "Examples")


@pytest.mark.parametrize("name", sorted(FUNCTIONS | COMPOSITIONS))
def test_docstrings_have_one_structure(name):
    """A twin refers to the function that it is named for, and says only what is different."""
    words = inspect.getdoc(getattr(smallmm, name))
    found = re.findall(r"^([A-Z][A-Za-z ]+)\n-+$", words, re.MULTILINE)
    if name.endswith("_ex"):
        assert found == ["Parameters", "Returns", "Examples"]
        assert f"`{name.removesuffix('_ex')}`" in words
        assert "``info``, int32, shape (...)," in words
        assert re.search(rf"^>>> (x, info = )?smallmm\.{name}\(", words, re.MULTILINE)
    else:
        assert found == list(SECTIONS)
        assert "operations" in words


def test_every_gufunc_with_an_order_beyond_its_kernels_has_a_fallback():
    any_order = {
        name for name in GUFUNCS if name.startswith(("solve_tridiagonal", "solve_banded", "solveh_banded"))
    }
    assert lapack.FALLBACKS.keys() == GUFUNCS - PRODUCTS - any_order


def test_stub_has_every_name_of_the_core():
    stub = ast.parse((PACKAGE / "_core.pyi").read_text(encoding="utf-8"))
    written = {
        node.target.id if isinstance(node, ast.AnnAssign) else node.name
        for node in stub.body
        if isinstance(node, ast.AnnAssign | ast.FunctionDef | ast.ClassDef)
    }
    names = {name for name in vars(core) if name == "__version__" or not name.startswith("__")}
    assert written == names - GUFUNCS | {"__getattr__"}


def test_every_name_of_the_core_that_is_used_is_there():
    """The stub gives every other name to a gufunc, so a type checker does not see a name that is wrong."""
    used = {
        node.attr
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "_core"
    }
    assert {"isa", "gufunc_rows"} < used <= set(dir(core))


def test_api_page_has_every_public_name():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    modules = re.split(r"^\.\. currentmodule:: (\S+)$", page, flags=re.MULTILINE)[1:]
    listed = [
        f"{module}.{name}"
        for module, text in zip(modules[::2], modules[1::2], strict=True)
        for name in re.findall(r"^\.\. auto(?:function|class|exception):: (\w+)$", text, re.MULTILINE)
    ]
    modules = ("__version__", "cuda", "numa", "testing")
    public = [f"smallmm.{name}" for name in smallmm.__all__ if name not in modules]
    public += [f"smallmm.cuda.{name}" for name in cuda.__all__ if not hasattr(smallmm, name)]
    public += [
        f"smallmm.{module.__name__.rpartition('.')[2]}.{name}"
        for module in (numa, testing)
        for name in module.__all__
    ]
    assert sorted(listed) == sorted(public)


class TestTableOfFunctions:
    """docs/functions.md and the table of docs/from-c.md."""

    @pytest.fixture
    def tool(self):
        pytest.importorskip("scipy")
        return import_module("functions")  # of tools/

    def test_it_is_up_to_date(self, tool):
        for name in tool.TABLES:
            page = (ROOT / "docs" / name).read_text(encoding="utf-8")
            assert tool.rendered(name) == page, "run python tools/functions.py"
        page = (ROOT / "docs" / "functions.md").read_text(encoding="utf-8")
        public = {x for x in smallmm.__all__ if inspect.isfunction(getattr(smallmm, x))}
        listed = set(re.findall(r"^\| \[`(\w+)`\]", page, re.MULTILINE))
        assert listed >= {x for x in public if not x.endswith("_ex")} | {"whiten"}

    def test_other_names(self, tool):
        scipy = import_module("scipy")
        self.resolve(np, [names[0] for names in tool.ELSEWHERE.values()])
        self.resolve(scipy, [names[1] for names in tool.ELSEWHERE.values()])
        assert tool.other_names("solve") == ("linalg.solve",) * 3
        assert tool.other_names("matvec")[:2] == ("matvec", None)

    def test_names_of_torch(self, tool, torch):
        self.resolve(torch, [names[2] for names in tool.ELSEWHERE.values()])
        self.resolve(torch.linalg, tool.TORCH)

    def resolve(self, library, names):
        for name in filter(None, names):
            assert attrgetter(name)(library), name

    def test_what_has_no_derivative(self, tool, torch):
        a = (2 * torch.eye(2, dtype=torch.float64) + 1).requires_grad_()
        for name in COMPOSITIONS.keys() - tool.NOT_DIFFERENTIATED:
            assert tool.derivative(name) == "yes"
        assert not smallmm.matrix_rank(a).requires_grad
        with pytest.raises(TypeError, match="requires a gradient, which smallmm does not compute"):
            smallmm.rcond(a)


def test_warmup_takes_every_operation():
    operations = {operation for operation, _ in core.gufunc_rows.values()}
    assert set(cuda._operations().values()) == operations


ADAPTERS = {file.stem for file in (PACKAGE / "_libraries").glob("*.py")} - {
    "__init__",
    "base",
    "dlpack",
    "jax_derivatives",
    "jax_promotion",
    "recording",
    "torch_operators",
}


def test_every_adapter_is_registered():
    assert {library.__module__.rpartition(".")[2] for library in LIBRARIES.values()} == ADAPTERS


def test_libraries_are_known_by_the_bases_of_a_type():
    class Array:
        __module__ = "torch.nested"

    class Own(Array):
        pass

    assert library_of(Own()).name == "torch"
    assert type(library_of(Own())) is LIBRARIES["torch"]
    assert library_of([1]) is library_of(np.eye(2))


# --- imports --------------------------------------------------------------------------------------


def test_what_few_use_is_not_imported_with_the_package(run_python):
    code = """
        import sys, smallmm
        print([module for module in smallmm._LATER if f"smallmm.{module}" in sys.modules])
        print(smallmm.KalmanStepResult.__module__, smallmm.testing.__name__)
    """
    assert run_python(code).stdout == "[]\nsmallmm smallmm.testing\n"


def test_packages_stand_in_an_order():
    """`make lint` runs the tool, which sees imports within functions, too."""
    imports = layout.graph()
    assert imports["_calls.calls"] >= {"_calls.arrays", "_libraries.dask"}
    assert layout.upwards(imports) == layout.circle(imports) == []
    assert layout.upwards({**imports, "_base.errors": {"_calls.calls"}})
    assert layout.circle({**imports, "_base.errors": {"_base.catalog"}})


@pytest.mark.parametrize("patterns", layout.LINKED, ids=lambda x: x[0])
def test_files_of_c_call_each_other_in_no_circle(patterns):
    calls = layout.calls(patterns)
    assert sum(map(len, calls.values())) > len(calls) > 10
    assert layout.circle(calls) == []


def test_no_folder_is_crowded(tmp_path):
    assert layout.crowded() == []
    folder = tmp_path / "tests/calls"
    folder.mkdir(parents=True)
    for name in ("__init__.py", "notes.md", *(f"{i}.py" for i in range(layout.MAX_FILES))):
        (folder / name).touch()
    assert layout.crowded(tmp_path) == []
    (folder / "one_more.c").touch()
    assert layout.crowded(tmp_path) == ["tests/calls has 26 source files, more than 25"]


@pytest.mark.parametrize("name", smallmm.__all__)
def test_public_names_are_pickled_by_their_names(name):
    """So what is pickled today is known after modules have moved."""
    if callable(value := getattr(smallmm, name)):
        pickled = pickle.dumps(value)
        assert pickle.loads(pickled) is value
        assert b"smallmm._" not in pickled
