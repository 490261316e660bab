"""Two actors of Ray with different frameworks, on one array.

One actor has torch and makes a picture. The other has JAX and weighs it. Ray carries a lease by the
tensor transport `gpulend`: on one machine both have the same memory, and between machines Ray
copies it. Each actor says which of the two it was.
"""

import gpulend
import gpulend.ray
import ray


@ray.remote(num_cpus=0, enable_tensor_transport=True)
class Camera:
    """Makes pictures with torch."""

    def __init__(self):
        self.picture = gpulend.zeros((4, 6), "float32", shared=True)
        self.tensor = self.picture.lend("torch")

    @ray.method(tensor_transport="gpulend")
    def take(self, brightness):
        """Send a picture. Ray holds it until nobody refers to it."""
        self.tensor.fill_(brightness)
        return self.picture

    def corner(self):
        """Return the first element."""
        return float(self.tensor[0, 0])


@ray.remote(num_cpus=0, enable_tensor_transport=True)
class Judge:
    """Weighs pictures with JAX, and marks them."""

    def weigh(self, picture):
        """Return the sum of a picture, and the ways by which pictures came."""
        total = float(picture.lend("jax").sum())
        picture[0, 0] = -1
        gpulend.synchronize()
        return total, {one.way: one.leases for one in gpulend.ledger().carried}


def main():
    """Have one actor take a picture, and the other weigh it."""
    with ray.init(logging_level="error"):
        camera, judge = Camera.remote(), Judge.remote()
        total, ways = ray.get(judge.weigh.remote(camera.take.remote(2.0)))
        corner = ray.get(camera.corner.remote())
    assert total == 48.0
    print(f"the picture weighs {total}; it came by {ways}; its first element is {corner} now")
    print("ok ray_actors ray", ray.__version__)


if __name__ == "__main__":
    main()
