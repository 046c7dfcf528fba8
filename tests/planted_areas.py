"""Where faults are planted (plant_faults.py): the rooms of the project, and which tests should notice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Area:
    """Files to plant faults in, and the tests that should notice: those that take a minute together, then others."""

    files: tuple[str, ...]
    quick: tuple[str, ...]
    slow: tuple[str, ...]


_ROAD = ("test_build", "test_emit", "test_random_graphs", "test_validate", "test_cli_project", "test_cli_device")
_PLANS = (
    "test_figures",
    "test_planner",
    "test_flow",
    "test_rows",
    "test_live_ranges",
    "test_in_place",
    "test_modes",
    "test_split",
    "test_cascade",
    "test_cli_plan",
    "test_place",
    "test_allocate",
)
_SEARCHES = (
    "test_planner_*",
    "test_cascade_*",
    "test_again",
    "test_shorten",
    "test_remat",
    "test_retention",
    "test_staged",
    "test_budgets",
)
AREAS: Mapping[str, Area] = {
    "kernels": Area(
        ("runtime_c/kernels/*/*.inc", "runtime_c/include/*.h"),
        ("test_kernel_matrix", "test_neon_armv7", "test_neon_dot"),
        ("test_mve*", "test_neon*", "test_kernels", "test_runtime_c", "test_emit", "test_random_graphs"),
    ),
    "emit": Area(
        ("generator/shoehorn_mcu/emit/**/*.py",),
        (
            "test_emit_parts",
            "test_figures",
            "test_header",
            "test_app",
            "test_files",
            "test_cli_library",
            "test_cli_project",
            "test_emit",
        ),
        ("test_many_libraries", "test_integrations", "test_stream", "test_framework", "test_linux", *_ROAD),
    ),
    "check": Area(
        ("generator/shoehorn_mcu/planner/check.py",),
        ("test_check", "test_check_words", "test_runs", "test_planner", "test_in_place", "test_cascade"),
        ("test_cascade_*", *_ROAD),
    ),
    "link": Area(
        (
            "host_tools/shoehorn_mcu_host/board/link.py",
            "host_tools/shoehorn_mcu_host/board/frames.py",
            "host_tools/shoehorn_mcu_host/folder/plan.py",
            "host_tools/shoehorn_mcu_host/validate/validate.py",
        ),
        ("test_link*", "test_validate*", "test_hostile*"),
        ("test_stream", "test_cli_device", "test_damaged*"),
    ),
    "passes": Area(
        ("generator/shoehorn_mcu/passes/**/*.py",),
        (
            "test_figures",
            "test_passes",
            "test_channel_ranges",
            "test_fold*",
            "test_fused",
            "test_slide",
            "test_cli_project",
        ),
        ("test_slide_firmware", "test_importer", "test_split", *_ROAD),
    ),
    "importers": Area(
        ("generator/shoehorn_mcu/importers/**/*.py",),
        (
            "test_figures",
            "test_importer",
            "test_bad_models",
            "test_laws",
            "test_cli",
            "test_onnx*",
            "test_torch*",
            "test_tflite*",
        ),
        (
            "test_ops_oracle",
            "test_reference_oracle",
            "test_op_table",
            "test_uint8",
            "test_int16",
            "test_signal",
            *_ROAD,
        ),
    ),
    "quantisation": Area(
        ("generator/shoehorn_mcu/quantisation/*.py",),
        ("test_quantize*", "test_figures"),
        ("test_cli", "test_api"),
    ),
    "several": Area(
        ("generator/shoehorn_mcu/firmware/several.py", "firmware_templates/models/*"),
        ("test_several", "test_figures"),
        ("test_cli_project", "test_api", "test_link"),
    ),
    "cores": Area(
        (
            "generator/shoehorn_mcu/planner/cores.py",
            "host_tools/shoehorn_mcu_host/board/cores.py",
            "firmware_templates/cores/*",
        ),
        ("test_cores", "test_figures"),
        ("test_runs", "test_check", *_ROAD),
    ),
    "pipeline": Area(
        ("generator/shoehorn_mcu/firmware/pipelines.py",),
        ("test_pipeline", "test_figures"),
        ("test_signal", "test_stream", "test_validate"),
    ),
    "tune": Area(
        ("generator/shoehorn_mcu/firmware/tune.py", "generator/shoehorn_mcu/kernels/tuning.py"),
        ("test_tune", "test_figures"),
        ("test_choice", "test_cli_device"),
    ),
    "firmware_templates": Area(
        ("firmware_templates/app/*.c", "firmware_templates/families/posix/**/*.c"),
        ("test_app*", "test_link", "test_mlperf*", "test_hostile*", "test_native_io", "test_validate"),
        ("test_energy_firmware", "test_stream*", "test_several", "test_monitor", "test_cli_device", "test_build"),
    ),
    "security": Area(
        (
            *(
                "host_tools/shoehorn_mcu_host/base/sandbox.py",
                "host_tools/shoehorn_mcu_host/base/walls.py",
                "host_tools/shoehorn_mcu_host/board/ports.py",
                "generator/shoehorn_mcu/machine/families.py",
            ),
            *("generator/shoehorn_mcu/importers/torch/script.py", "generator/shoehorn_mcu/importers/torch/archive.py"),
            *("generator/shoehorn_mcu/importers/onnx/external.py", "generator/shoehorn_mcu/importers/plain.py"),
        ),
        ("test_sandbox", "test_onnx_external", "test_torch_archive", "test_hostile*", "test_manifest", "test_boards"),
        ("test_torch", "test_onnx", "test_link", "test_monitor", "test_hosts", "test_children"),
    ),
    "ops": Area(
        ("generator/shoehorn_mcu/ops/**/*.py", "generator/shoehorn_mcu/ir/*.py"),
        ("test_figures", "test_ops", "test_op_table", "test_declared", "test_importer", "test_laws"),
        ("test_ops_oracle", "test_reference_oracle", "test_onnx*", "test_tflite*", *_ROAD),
    ),
    "choice": Area(
        ("generator/shoehorn_mcu/kernels/**/*.py", "generator/shoehorn_mcu/estimate/*.py"),
        ("test_figures", "test_choice", "test_cost", "test_kernels", "test_stack", "test_emit_parts"),
        ("test_kernel_matrix", "test_mve*", "test_neon*", "test_thumb", "test_packed_conv", "test_depthwise", *_ROAD),
    ),
    "schedule": Area(
        ("generator/shoehorn_mcu/schedule/*.py",),
        _PLANS,
        (*_SEARCHES, "test_runs", "test_spread*", "test_stream*", *_ROAD),
    ),
    "slim": Area(
        ("generator/shoehorn_mcu/slim/**/*.py",),
        ("test_figures", "test_slim*", "test_cli_slim"),
        ("test_learn*",),
    ),
    "commands": Area(
        (
            "generator/shoehorn_mcu/cli/*.py",
            "generator/shoehorn_mcu/inspect/*.py",
            "generator/shoehorn_mcu/firmware/*.py",
            "generator/shoehorn_mcu/machine/*.py",
            "generator/shoehorn_mcu/api.py",
        ),
        ("test_figures", "test_cli", "test_cli_plan", "test_api", "test_inspect", "test_boards", "test_errors"),
        ("test_slide_firmware", "test_cli_*", "test_docs", "test_page", "test_doctor", "test_upgrade", *_ROAD),
    ),
    "host": Area(
        ("host_tools/shoehorn_mcu_host/*/*.py",),
        ("test_link", "test_validate", "test_manifest", "test_boards", "test_stack", "test_cbuild", "test_files"),
        (
            "test_hostile*",
            "test_doctor",
            "test_hosts",
            "test_outside",
            "test_samples",
            "test_flash",
            "test_monitor",
            "test_cores",
            "test_cycles",
        ),
    ),
    "planner": Area(
        (
            "generator/shoehorn_mcu/planner/**/*.py",
            "generator/shoehorn_mcu/planner/**/*.c",
            "generator/shoehorn_mcu/schedule/lower.py",
            "generator/shoehorn_mcu/schedule/split.py",
        ),
        _PLANS,
        (*_SEARCHES, *_ROAD),
    ),
}
