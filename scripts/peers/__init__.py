"""Programs that others would use for stencils of volumes, timed beside ours."""
